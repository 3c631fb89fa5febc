// Readers of packets as Suricata 7 has them with `ebpf-lb-file` (EBPFLoadFile and AFPCreateSocket, in this order): the
// object is loaded by libbpf, a socket asks whether there are fan-out groups, and each thread gives the program to the
// group once its AF_PACKET socket has joined. Thread number n burns n times MICROSECONDS for a packet.
//
// readers OBJECT MAPS INTERFACE THREADS MICROSECONDS
//
// Prints `ready`, then `SOCKET PORT` for each UDP packet over IPv4, until standard input ends.

#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/bpf.h>
#include <net/if.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { GROUP = 7, THREADS_MAX = 64, IP_BYTES = 20, UDP = 17 };

static int sockets[THREADS_MAX];
static long burn_ns;

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static int load_program(const char *path, const char *maps)
{
	LIBBPF_OPTS(bpf_object_open_opts, options, .pin_root_path = maps);
	struct bpf_object *object = bpf_object__open_file(path, &options);
	struct bpf_program *program, *found = NULL;

	if (!object)
		fail("bpf_object__open_file");
	bpf_object__for_each_program(program, object) {
		if (!strcmp(bpf_program__section_name(program), "loadbalancer")) {
			bpf_program__set_type(program, BPF_PROG_TYPE_SOCKET_FILTER);
			found = program;
			break;
		}
	}
	if (!found || bpf_object__load(object))
		fail("bpf_object__load");
	return bpf_program__fd(found);
}

static void ask_for_fanout(void)
{
	int group = GROUP | (PACKET_FANOUT_HASH | PACKET_FANOUT_FLAG_DEFRAG) << 16;
	int descriptor = socket(AF_PACKET, SOCK_RAW, htons(ETH_P_ALL));

	if (descriptor < 0 || setsockopt(descriptor, SOL_PACKET, PACKET_FANOUT, &group, sizeof(group)))
		fail("PACKET_FANOUT_HASH");
	close(descriptor);
}

static int open_socket(const char *interface, int program)
{
	struct sockaddr_ll address = {
		.sll_family = AF_PACKET,
		.sll_protocol = htons(ETH_P_ALL),
		.sll_ifindex = (int)if_nametoindex(interface),
	};
	int group = GROUP | PACKET_FANOUT_EBPF << 16;
	int descriptor = socket(AF_PACKET, SOCK_RAW, htons(ETH_P_ALL));

	if (descriptor < 0 || bind(descriptor, (struct sockaddr *)&address, sizeof(address)))
		fail("socket");
	if (setsockopt(descriptor, SOL_PACKET, PACKET_FANOUT, &group, sizeof(group)))
		fail("PACKET_FANOUT");
	if (setsockopt(descriptor, SOL_PACKET, PACKET_FANOUT_DATA, &program, sizeof(program)))
		fail("PACKET_FANOUT_DATA");
	return descriptor;
}

static void burn(long nanoseconds)
{
	struct timespec begin, now;

	clock_gettime(CLOCK_MONOTONIC, &begin);
	do {
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while ((now.tv_sec - begin.tv_sec) * 1000000000L + now.tv_nsec - begin.tv_nsec < nanoseconds);
}

static void *read_packets(void *argument)
{
	intptr_t number = (intptr_t)argument;
	uint8_t frame[2048];
	ssize_t length;

	while ((length = recv(sockets[number], frame, sizeof(frame), 0)) >= 0) {
		const uint8_t *ip = frame + ETH_HLEN;

		burn(number * burn_ns);
		if (length >= ETH_HLEN + IP_BYTES + 2 && ip[0] == 0x45 && ip[9] == UDP)
			printf("%ld %d\n", (long)number, ip[IP_BYTES] << 8 | ip[IP_BYTES + 1]);
	}
	return NULL;
}

int main(int count, char **arguments)
{
	char rest[64];
	long threads;
	int program;

	if (count != 6 || (threads = atol(arguments[4])) < 1 || threads > THREADS_MAX)
		return 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	burn_ns = 1000 * atol(arguments[5]);
	program = load_program(arguments[1], arguments[2]);
	ask_for_fanout();
	for (long number = 0; number < threads; number++)
		sockets[number] = open_socket(arguments[3], program);
	for (intptr_t number = 0; number < threads; number++) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, read_packets, (void *)number))
			fail("pthread_create");
	}
	puts("ready");
	while (read(STDIN_FILENO, rest, sizeof(rest)) > 0)
		;
	return 0;
}
