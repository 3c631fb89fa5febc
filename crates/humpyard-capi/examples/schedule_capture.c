// Plays a capture to a policy, and writes the packets in the order and at the times at which the cores would
// send them.
//
//     schedule_capture IN.pcap OUT.pcap POLICY MEGABITS
//
// The capture gives the time. Each of four cores sends MEGABITS per second. Packets that arrive within 100 us form one
// burst. Prints the account, and exits with 1 if a packet is lost.
#include <inttypes.h>
#include <pcap/pcap.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "humpyard.h"

#define CORES 4
#define BURST 32
#define FLOWS 1024
#define HELD 512
#define SNAPLEN 65535
#define WITHIN_NS 100000
#define SECOND_NS 1000000000ull

static void must(bool good, const char *what) {
    if (good) return;
    fprintf(stderr, "schedule_capture: %s\n", what);
    exit(1);
}

// FNV-1a, from a start value.
static uint64_t hash(uint64_t start, const uint8_t *bytes, size_t size) {
    for (size_t i = 0; i < size; i++) start = (start ^ bytes[i]) * 0x100000001b3;
    return start;
}

// Hashes the addresses, ports and protocol of an Ethernet frame; both directions of a connection have the same
// hash. For a fragment it hashes no ports, and for a frame without IP the Ethernet addresses.
static uint64_t connection(const uint8_t *frame, size_t size) {
    size_t at = 0, length = 6, ports = 0;
    uint8_t protocol = 0;
    if (size < 14) return 0;
    if (size >= 34 && frame[12] == 0x08 && frame[13] == 0x00) {
        at = 26, length = 4, protocol = frame[23];
        if ((frame[20] & 0x3f) == 0 && frame[21] == 0) ports = 14 + (frame[14] & 15) * 4;
    } else if (size >= 54 && frame[12] == 0x86 && frame[13] == 0xdd) {
        at = 22, length = 16, protocol = frame[20], ports = 54;
    }
    uint64_t there = hash(0xcbf29ce484222325, frame + at, length);
    uint64_t back = hash(0xcbf29ce484222325, frame + at + length, length);
    if ((protocol == 6 || protocol == 17) && ports > 0 && size >= ports + 4) {
        there = hash(there, frame + ports, 2);
        back = hash(back, frame + ports + 2, 2);
    }
    return hash(there + back, &protocol, 1);
}

struct frame {
    struct pcap_pkthdr header;
    uint8_t *bytes;
};

struct core {
    uint64_t busy_until; // The end of its current burst; UINT64_MAX if it is idle.
    int32_t count;
    uint32_t slots[BURST];
    uint64_t busy_ns[BURST];
};

static struct humpyard_scheduler *scheduler;
static pcap_dumper_t *dumper;
static uint64_t bits_per_second, in, out, dropped, latest;
static struct frame held[HELD]; // By slot.
static struct core cores[CORES];

// Takes the next burst of an idle core.
static void begin(uint64_t now, uint16_t number) {
    struct core *core = &cores[number];
    struct humpyard_dispatch dispatches[BURST];
    core->count = humpyard_next_burst(scheduler, now, number, dispatches, BURST);
    must(core->count >= 0, humpyard_last_error());
    core->busy_until = core->count > 0 ? now : UINT64_MAX;
    for (int32_t i = 0; i < core->count; i++) {
        core->slots[i] = dispatches[i].slot;
        core->busy_ns[i] = dispatches[i].packet.length * 8 * SECOND_NS / bits_per_second;
        core->busy_until += core->busy_ns[i];
    }
}

// Writes the burst that a core has sent, and completes it.
static void end(uint64_t now, struct core *core) {
    uint64_t sent = now;
    for (int32_t i = 0; i < core->count; i++) sent -= core->busy_ns[i];
    for (int32_t i = 0; i < core->count; i++) {
        struct frame *frame = &held[core->slots[i]];
        sent += core->busy_ns[i];
        frame->header.ts.tv_sec = sent / SECOND_NS;
        frame->header.ts.tv_usec = sent % SECOND_NS; // Nanoseconds: the files are opened for this unit.
        pcap_dump((uint8_t *)dumper, &frame->header, frame->bytes);
        free(frame->bytes);
    }
    must(humpyard_complete_burst(scheduler, now, core->slots, core->busy_ns, core->count) == 0, humpyard_last_error());
    out += core->count;
    core->busy_until = UINT64_MAX;
}

// Lets the cores send up to this time.
static void send_until(uint64_t until) {
    for (;;) {
        uint16_t first = 0;
        for (uint16_t number = 1; number < CORES; number++)
            if (cores[number].busy_until < cores[first].busy_until) first = number;
        uint64_t now = cores[first].busy_until;
        if (now == UINT64_MAX || now > until) break;
        end(now, &cores[first]);
        for (uint16_t number = 0; number < CORES; number++)
            if (cores[number].busy_until == UINT64_MAX) begin(now, number);
        latest = now;
    }
}

// Lets a burst of frames arrive, the last of them at this time.
static void arrive(uint64_t now, const struct frame *frames, size_t count) {
    struct humpyard_packet packets[BURST];
    int64_t answers[BURST];
    send_until(now);
    if (now > latest) latest = now;
    for (size_t i = 0; i < count; i++) {
        uint64_t key = connection(frames[i].bytes, frames[i].header.caplen);
        uint32_t flow = key % FLOWS;
        packets[i] = (struct humpyard_packet){.key = key, .rss = (uint32_t)key, .flow = flow, .client = flow,
                                              .length = frames[i].header.len};
    }
    must(humpyard_arrive_burst(scheduler, latest, packets, count, answers) == 0, humpyard_last_error());
    for (size_t i = 0; i < count; i++) {
        if (answers[i] >= 0) {
            held[answers[i]] = frames[i];
        } else {
            free(frames[i].bytes);
            dropped++;
        }
    }
    in += count;
    for (uint16_t number = 0; number < CORES; number++)
        if (cores[number].busy_until == UINT64_MAX) begin(latest, number);
}

static uint64_t time_of(const struct pcap_pkthdr *header) {
    return header->ts.tv_sec * SECOND_NS + header->ts.tv_usec;
}

int main(int argc, char **argv) {
    char error[PCAP_ERRBUF_SIZE];
    must(argc == 5, "schedule_capture IN.pcap OUT.pcap POLICY MEGABITS");
    pcap_t *capture = pcap_open_offline_with_tstamp_precision(argv[1], PCAP_TSTAMP_PRECISION_NANO, error);
    must(capture != NULL, error);
    must(pcap_datalink(capture) == DLT_EN10MB, "the capture is not one of Ethernet");
    pcap_t *like = pcap_open_dead_with_tstamp_precision(DLT_EN10MB, SNAPLEN, PCAP_TSTAMP_PRECISION_NANO);
    dumper = pcap_dump_open(like, argv[2]);
    must(dumper != NULL, pcap_geterr(like));
    bits_per_second = strtoull(argv[4], NULL, 10) * 1000000;
    must(bits_per_second > 0, "MEGABITS must be from 1");
    struct humpyard_config config = {.cores = CORES, .clients = FLOWS, .flows = FLOWS, .packets = HELD, .longest = SNAPLEN};
    scheduler = humpyard_new(argv[3], &config);
    must(scheduler != NULL, humpyard_last_error());
    for (int number = 0; number < CORES; number++) cores[number].busy_until = UINT64_MAX;

    struct frame frames[BURST];
    size_t count = 0;
    struct pcap_pkthdr *header;
    const uint8_t *bytes;
    int more;
    while ((more = pcap_next_ex(capture, &header, &bytes)) == 1) {
        bool is_later = count > 0 && time_of(header) > time_of(&frames[0].header) + WITHIN_NS;
        if (count == BURST || is_later) {
            arrive(time_of(&frames[count - 1].header), frames, count);
            count = 0;
        }
        frames[count] = (struct frame){.header = *header, .bytes = malloc(header->caplen)};
        must(frames[count].bytes != NULL, "out of memory");
        memcpy(frames[count++].bytes, bytes, header->caplen);
    }
    must(more == PCAP_ERROR_BREAK, pcap_geterr(capture));
    if (count > 0) arrive(time_of(&frames[count - 1].header), frames, count);
    send_until(UINT64_MAX);

    struct humpyard_account account;
    must(humpyard_account(scheduler, &account) == 1, humpyard_last_error());
    printf("%s: %" PRIu64 " in = %" PRIu64 " out + %" PRIu64 " held + %" PRIu64 " dropped (%" PRIu64 " buffer, %" PRIu64
           " queue, %" PRIu64 " client)\n", argv[3], in, out, account.held, dropped, account.buffer_full,
           account.queue_full, account.client_full);
    must(account.arrived == in && account.processed == out && in == out + account.held + dropped, "a packet is lost");
    must(dropped == account.buffer_full + account.queue_full + account.client_full, "a drop has no reason");
    humpyard_free(scheduler);
    pcap_dump_close(dumper);
    pcap_close(like);
    pcap_close(capture);
}
