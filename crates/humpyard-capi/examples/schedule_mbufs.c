// Schedules the mbufs of a DPDK port: takes them in bursts, hands them to a policy, and sends them in the
// policy's order.
//
//     schedule_mbufs EAL-ARGUMENTS -- POLICY
//     schedule_mbufs --no-huge -m 256 --no-pci --vdev net_pcap0,rx_pcap=in.pcap,tx_pcap=out.pcap -- gr3
//
// One thread stands for all cores. In each round, a core may send 8 packets and up to 64 arrive: so packets
// wait, and some are dropped. Ends when the port has no more. Prints the account, and exits with 1 if a packet
// or an mbuf is lost.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_ip.h>
#include <rte_jhash.h>
#include <rte_mbuf.h>

#include "humpyard.h"

#define CORES 4
#define BURST 32
#define SERVED 8
#define FLOWS 1024
#define HELD 1024
#define MBUFS 4095
#define PORT 0

static void must(int good, const char *what) {
    if (good) return;
    fprintf(stderr, "schedule_mbufs: %s\n", what);
    exit(1);
}

// The hash is the same for both directions of a connection. A fragment's covers no ports.
static uint32_t connection(const struct rte_mbuf *mbuf) {
    struct { uint8_t source[16], destination[16]; uint16_t ports[2]; uint8_t protocol; } tuple = {0};
    const struct rte_ether_hdr *ether = rte_pktmbuf_mtod(mbuf, const struct rte_ether_hdr *);
    uint32_t size = rte_pktmbuf_data_len(mbuf), transport = 0;
    if (size >= sizeof *ether + sizeof(struct rte_ipv4_hdr) && ether->ether_type == RTE_BE16(RTE_ETHER_TYPE_IPV4)) {
        const struct rte_ipv4_hdr *ip = (const struct rte_ipv4_hdr *)(ether + 1);
        memcpy(tuple.source, &ip->src_addr, sizeof ip->src_addr);
        memcpy(tuple.destination, &ip->dst_addr, sizeof ip->dst_addr);
        tuple.protocol = ip->next_proto_id;
        bool is_fragment = ip->fragment_offset & RTE_BE16(RTE_IPV4_HDR_MF_FLAG | RTE_IPV4_HDR_OFFSET_MASK);
        if (!is_fragment) transport = sizeof *ether + rte_ipv4_hdr_len(ip);
    } else if (size >= sizeof *ether + sizeof(struct rte_ipv6_hdr) && ether->ether_type == RTE_BE16(RTE_ETHER_TYPE_IPV6)) {
        const struct rte_ipv6_hdr *ip = (const struct rte_ipv6_hdr *)(ether + 1);
        memcpy(tuple.source, ip->src_addr, sizeof ip->src_addr);
        memcpy(tuple.destination, ip->dst_addr, sizeof ip->dst_addr);
        tuple.protocol = ip->proto;
        transport = sizeof *ether + sizeof *ip;
    }
    bool has_ports = tuple.protocol == IPPROTO_TCP || tuple.protocol == IPPROTO_UDP;
    if (has_ports && transport > 0 && size >= transport + sizeof tuple.ports)
        memcpy(tuple.ports, rte_pktmbuf_mtod_offset(mbuf, const void *, transport), sizeof tuple.ports);
    uint32_t there = rte_jhash(tuple.source, sizeof tuple.source, tuple.ports[0]);
    uint32_t back = rte_jhash(tuple.destination, sizeof tuple.destination, tuple.ports[1]);
    return rte_jhash_2words(RTE_MIN(there, back), RTE_MAX(there, back), tuple.protocol);
}

static struct rte_mempool *open_port(void) {
    struct rte_mempool *pool = rte_pktmbuf_pool_create("mbufs", MBUFS, 0, 0, RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY);
    must(pool != NULL, "no memory for mbufs");
    const struct rte_eth_conf conf = {0};
    must(rte_eth_dev_configure(PORT, 1, 1, &conf) == 0, "the port cannot be configured");
    must(rte_eth_rx_queue_setup(PORT, 0, 512, SOCKET_ID_ANY, NULL, pool) == 0, "the port has no queue to receive from");
    must(rte_eth_tx_queue_setup(PORT, 0, 512, SOCKET_ID_ANY, NULL) == 0, "the port has no queue to send by");
    must(rte_eth_dev_start(PORT) == 0, "the port does not start");
    return pool;
}

static struct humpyard_scheduler *scheduler;
static struct rte_mbuf *held[HELD]; // By slot.
static uint64_t in, out, unsent, dropped[5]; // Drops, by the negative of the reason.

// Takes a burst from the port, and hands it to the scheduler. Returns its size.
static uint16_t receive(uint64_t now) {
    struct rte_mbuf *mbufs[BURST];
    struct humpyard_packet packets[BURST];
    int64_t answers[BURST];
    uint16_t count = rte_eth_rx_burst(PORT, 0, mbufs, BURST);
    for (uint16_t i = 0; i < count; i++) {
        uint32_t key = connection(mbufs[i]), flow = key % FLOWS;
        packets[i] = (struct humpyard_packet){.key = key, .rss = key, .flow = flow, .client = flow,
                                              .length = rte_pktmbuf_pkt_len(mbufs[i])};
    }
    must(humpyard_arrive_burst(scheduler, now, packets, count, answers) == 0, humpyard_last_error());
    for (uint16_t i = 0; i < count; i++) {
        if (answers[i] >= 0) {
            held[answers[i]] = mbufs[i];
        } else {
            dropped[-answers[i]]++;
            rte_pktmbuf_free(mbufs[i]);
        }
    }
    in += count;
    return count;
}

// Sends the next packets of a core. Returns their number.
static uint16_t serve(uint64_t now, uint16_t core) {
    struct humpyard_dispatch dispatches[SERVED];
    struct rte_mbuf *mbufs[SERVED];
    uint32_t slots[SERVED];
    int32_t count = humpyard_next_burst(scheduler, now, core, dispatches, SERVED);
    must(count >= 0, humpyard_last_error());
    for (int32_t i = 0; i < count; i++) {
        slots[i] = dispatches[i].slot;
        mbufs[i] = held[slots[i]];
    }
    uint16_t sent = rte_eth_tx_burst(PORT, 0, mbufs, count); // Your work goes before this call.
    for (int32_t i = sent; i < count; i++) rte_pktmbuf_free(mbufs[i]);
    must(humpyard_complete_burst(scheduler, now, slots, NULL, count) == 0, humpyard_last_error());
    out += sent;
    unsent += count - sent;
    return count;
}

int main(int argc, char **argv) {
    int eal = rte_eal_init(argc, argv);
    must(eal >= 0 && argc == eal + 2, "schedule_mbufs EAL-ARGUMENTS -- POLICY");
    const char *policy = argv[eal + 1];
    must(rte_eth_dev_count_avail() > 0, "there is no port");
    struct rte_mempool *pool = open_port();
    unsigned available = rte_mempool_avail_count(pool);
    struct humpyard_config config = {.cores = CORES, .clients = FLOWS, .flows = FLOWS, .packets = HELD,
                                     .in_flight = SERVED, .longest = 65535};
    scheduler = humpyard_new(policy, &config);
    must(scheduler != NULL, humpyard_last_error());

    uint64_t start = rte_get_timer_cycles(), hertz = rte_get_timer_hz();
    for (bool is_over = false; !is_over;) {
        uint64_t now = (double)(rte_get_timer_cycles() - start) / hertz * 1e9;
        is_over = receive(now) + receive(now) == 0;
        for (uint16_t core = 0; core < CORES; core++) is_over &= serve(now, core) == 0;
    }

    struct humpyard_account account;
    must(humpyard_account(scheduler, &account) == 1, humpyard_last_error());
    uint64_t drops = account.buffer_full + account.queue_full + account.client_full;
    printf("%s: %" PRIu64 " in = %" PRIu64 " out + %" PRIu64 " unsent + %" PRIu64 " held + %" PRIu64 " dropped (%" PRIu64
           " buffer, %" PRIu64 " queue, %" PRIu64 " client)\n", policy, in, out, unsent, account.held, drops,
           account.buffer_full, account.queue_full, account.client_full);
    must(account.arrived == in && account.processed == out + unsent && in == out + unsent + account.held + drops,
         "a packet is lost");
    must(account.buffer_full == dropped[-HUMPYARD_DROPPED_BUFFER_FULL], "a drop has another reason");
    humpyard_free(scheduler);
    rte_eth_dev_stop(PORT);
    must(rte_mempool_avail_count(pool) == available, "an mbuf is lost");
    printf("%u of %u mbufs are back\n", rte_mempool_avail_count(pool), available);
    rte_eth_dev_close(PORT);
    rte_eal_cleanup();
}
