// humpyard: scheduling policies that share many cores among packets, for programs in C.
//
// A scheduler holds packets, and decides which core serves which packet next, and when. It has no clock, no
// thread and no I/O: the program reports arrivals and completions to it, with times in nanoseconds that never go
// back.
//
// A refused call returns a negative number, a `humpyard_error`, and changes nothing. `humpyard_last_error` has
// the message. A scheduler refuses NULL, ids out of range, and slots that are not in service.
//
// Threads: one thread at a time may use a scheduler. Any thread may be the next, if a lock or another hand-over
// orders the two. Calls of two threads at once damage a scheduler, and the library does not detect them.
// Schedulers share nothing: threads may use different schedulers freely. Each thread has its own last failure,
// with its message and code.
//
// Memory: `humpyard_new` allocates all memory of a scheduler. After it, only `humpyard_free` and refused calls,
// which store their message, allocate or free memory.
//
// Until version 1, a new minor version may require programs to be recompiled. The name of the shared library
// then changes.

#ifndef HUMPYARD_H
#define HUMPYARD_H

// Generated from crates/humpyard-capi/src: HUMPYARD_RENEW=1 cargo test -p humpyard-capi --test header writes it anew.

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Why a packet was dropped.
enum humpyard_dropped {
    // The scheduler held as many packets as it has room for.
    HUMPYARD_DROPPED_BUFFER_FULL = -1,
    // The queue held as many packets as a queue may.
    HUMPYARD_DROPPED_QUEUE_FULL = -2,
    // The client had as many packets waiting as a client may.
    HUMPYARD_DROPPED_CLIENT_FULL = -3,
    // Another packet took its room. Never in this version, which drops the arriving packet instead.
    HUMPYARD_DROPPED_PUSHED_OUT = -4,
};

// Why a call was refused; `humpyard_last_error` says more.
enum humpyard_error {
    // A pointer is NULL, and must not be.
    HUMPYARD_ERROR_NULL = -100,
    // An argument is invalid, such as an id out of range.
    HUMPYARD_ERROR_ARGUMENT = -101,
    // The call does not fit the calls before: time goes back, or the packet is not in service.
    HUMPYARD_ERROR_ORDER = -102,
    // The scheduler failed internally, now or before. The only valid call is `humpyard_free`.
    HUMPYARD_ERROR_BROKEN = -103,
    // No policy or family has this name.
    HUMPYARD_ERROR_UNKNOWN_POLICY = -110,
    // The policy has no parameter of this name.
    HUMPYARD_ERROR_UNKNOWN_PARAMETER = -111,
    // The text names no policy, or names a family or a parameter twice.
    HUMPYARD_ERROR_SYNTAX = -112,
    // A parameter does not take this value.
    HUMPYARD_ERROR_BAD_VALUE = -113,
    // Policies, parameters and configuration are each valid, but not together.
    HUMPYARD_ERROR_COMBINATION = -114,
    // The scheduler would need more memory, or greater numbers, than possible.
    HUMPYARD_ERROR_TOO_LARGE = -115,
    // The configuration contradicts itself: more weights than clients, for example.
    HUMPYARD_ERROR_SET_UP = -116,
};

// The unit of work.
enum humpyard_unit {
    // Bytes: each packet is charged its length.
    HUMPYARD_UNIT_BYTES = 0,
    // Packets: each packet is charged one.
    HUMPYARD_UNIT_PACKETS = 1,
    // Nanoseconds of one core: each packet is charged its processing time.
    HUMPYARD_UNIT_NANOSECONDS = 2,
};

// The part of a longer unit that a packet is.
enum humpyard_part {
    // The whole unit.
    HUMPYARD_PART_WHOLE = 0,
    // The first part.
    HUMPYARD_PART_FIRST = 1,
    // Neither the first nor the last part.
    HUMPYARD_PART_MIDDLE = 2,
    // The last part.
    HUMPYARD_PART_LAST = 3,
};

// A scheduler: packets, their queues, and the policies that order them.
struct humpyard_scheduler;

// A service's properties. All 0: nothing is known of the service.
struct humpyard_service {
    // Processing time of a typical packet on a core.
    uint64_t packet_time_ns;
    // Time that a core needs to switch to this service.
    uint64_t switch_cost_ns;
    // The longest tolerable delay. 0: any delay.
    uint64_t tolerance_ns;
    // Estimated cost of a packet of length 0, in the unit of work. If `per_byte_milli` and `cold` are 0 too,
    // the estimate is the packet's bytes, one packet, or one nanosecond per byte, by unit.
    uint32_t fixed;
    // Estimated cost of each byte, in thousandths of the unit of work.
    uint32_t per_byte_milli;
    // Estimated extra cost if the core served another service before.
    uint32_t cold;
    // The guaranteed share of the cores, in millionths. The sum over all services is at most a million.
    uint32_t guarantee_millionths;
};

// The configuration of a scheduler. All 0: one core, one client, one flow, one service, and room for 1024
// packets.
struct humpyard_config {
    // Number of cores. 0: one.
    uint32_t cores;
    // Contexts of each processing element: this many consecutive cores take turns to compute. 0: one.
    uint32_t contexts;
    // The distances between cores, as fan-outs from the root such as "2x2x2" (sockets, caches, cores). The
    // cost of crossing each level, from 1, may follow: "2x4:2.0,1.2". NULL: all cores are equally near.
    const char *topology;
    // Speeds of the first cores, in thousandths of the speed that the estimates assume. The other cores have
    // 1000.
    const uint32_t *speeds;
    // Number of speeds.
    size_t speed_count;
    // Number of clients. 0: one.
    uint32_t clients;
    // Number of flows. 0: one.
    uint32_t flows;
    // Most packets held at once, waiting or in service. 0: 1024.
    uint32_t packets;
    // Length of the longest packet, in bytes; a longer one is refused. 0: 1514.
    uint32_t longest;
    // Weights of the first clients, from 1. The other clients have 1.
    const uint32_t *weights;
    // Number of weights.
    size_t weight_count;
    // The services.
    const struct humpyard_service *services;
    // Number of services. 0: one service, which has all cores.
    size_t service_count;
    // Most packets waiting in one queue. 0: no limit.
    uint32_t queue_limit;
    // Most packets of one client waiting in one queue. 0: no limit.
    uint32_t client_limit;
    // Packets in flight per core. 0: one.
    uint32_t in_flight;
    // Number of services that stay resident on a core: switching back to one of them takes no time. 0: one.
    uint16_t services_per_core;
    // The unit of work, a `humpyard_unit`.
    uint8_t unit;
    // Whether several cores may serve one client at once, so that its packets may overtake each other. 0: no.
    uint8_t free_order;
    // Whether the higher id wins a tie. 0: no.
    uint8_t ties_highest;
    // Seed of the random policies. 0: 1.
    uint64_t seed;
};

// The description of one packet. Its contents stay with the program.
struct humpyard_packet {
    // A hash of its connection, the same in both directions. Policies that steer by hash use it.
    uint64_t key;
    // The packet's estimated work. For an arriving packet, only `oracle` uses it.
    uint64_t estimate;
    // Its flow, from 0.
    uint32_t flow;
    // The client that is charged, from 0.
    uint32_t client;
    // Its length in bytes.
    uint32_t length;
    // The Toeplitz hash of its connection.
    uint32_t rss;
    // The service that the packet needs, from 0.
    uint16_t service;
    // The part of a longer unit that it is, a `humpyard_part`.
    uint8_t part;
    // Whether it begins or ends its connection, as SYN, FIN and RST do. 0: no. Only `sprayer` uses it.
    uint8_t changes_connection;
};

// A packet for a core to serve.
struct humpyard_dispatch {
    // Arrival time.
    uint64_t arrival_ns;
    // Its number among the packets that were not dropped, from 0.
    uint64_t sequence;
    // The packet.
    struct humpyard_packet packet;
    // Its slot, which names it at completion.
    uint32_t slot;
    // Whether the core's previous packet had another service, or there was none.
    bool cold;
};

// A core that switches to another service.
struct humpyard_switch {
    // Time that the switch takes.
    uint64_t cost_ns;
    // The core, which serves no packet during the switch.
    uint16_t core;
    // The new service.
    uint16_t to;
};

// Counts of all packets. Always: arrived = processed + held + dropped.
struct humpyard_account {
    // Packets that arrived.
    uint64_t arrived;
    // Packets that are complete.
    uint64_t processed;
    // Packets waiting or in service now.
    uint64_t held;
    // Packets dropped because the scheduler was full.
    uint64_t buffer_full;
    // Packets dropped because their queue was full.
    uint64_t queue_full;
    // Packets dropped because their client had too many waiting.
    uint64_t client_full;
};

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Returns the version of the library, such as "0.1.0".
const char *humpyard_version(void);

// Returns the message of this thread's last failed call, in one line of UTF-8; empty if no call failed. The
// message stays valid until the next failed call of this thread.
const char *humpyard_last_error(void);

// Returns the code of this thread's last failed call, a `humpyard_error`; 0 if no call failed. It says why
// `humpyard_new` returned NULL: an unknown policy, a bad value, and so on.
int32_t humpyard_last_error_code(void);

// Returns a new scheduler, or NULL on failure. `humpyard_last_error` then has the message, and
// `humpyard_last_error_code` the code.
//
// `policy` names policies, with parameters: "gr3", "ps-hrw:beta=0.1", "steer=hrw/share=drr". `config` may be
// NULL, for all defaults. The scheduler keeps neither pointer.
//
// # Safety
// `policy` is NULL or a string. `config` is NULL or a configuration whose pointers are each NULL or valid.
struct humpyard_scheduler *humpyard_new(const char *policy, const struct humpyard_config *config);

// Frees a scheduler, with the packets that it holds. NULL has no effect.
//
// # Safety
// `scheduler` is NULL, or comes from `humpyard_new` and was not freed.
void humpyard_free(struct humpyard_scheduler *scheduler);

// Queues an arriving packet. Returns its slot, from 0, which names it until it is complete. If the packet is
// dropped, returns a `humpyard_dropped`; if the call is refused, a `humpyard_error`. Both are negative.
//
// # Safety
// `scheduler` is NULL or a scheduler that no other thread uses now. `packet` is NULL or a packet.
int64_t humpyard_arrive(struct humpyard_scheduler *scheduler, uint64_t now_ns, const struct humpyard_packet *packet);

// Finds a core that has room and for which a packet may wait. Returns 1, and the core in `core`; 0 if there is
// none. Call `humpyard_next` for this core, then this again until it returns 0: then no core can take more.
//
// # Safety
// `scheduler` is NULL or a scheduler that no other thread uses now. `core` is NULL or room for the answer.
int32_t humpyard_next_core(struct humpyard_scheduler *scheduler, uint64_t now_ns, uint16_t *core);

// Takes the packet that a core serves next. Returns 1, and the packet in `dispatch`; 0 if there is no packet
// that it may serve. The program does the work, and then calls `humpyard_complete`.
//
// # Safety
// `scheduler` is NULL or a scheduler that no other thread uses now. `dispatch` is NULL or room for the answer.
int32_t humpyard_next(struct humpyard_scheduler *scheduler,
                      uint64_t now_ns,
                      uint16_t core,
                      struct humpyard_dispatch *dispatch);

// Completes the packet in this slot, for which its core was busy for `busy_ns`. Returns 0. Another packet may
// then get the slot. If the unit of work is nanoseconds, the packet is charged `busy_ns`, up to about a
// million times the longest packet's estimate. In other units, `busy_ns` may be 0.
//
// # Safety
// `scheduler` is NULL or a scheduler that no other thread uses now.
int32_t humpyard_complete(struct humpyard_scheduler *scheduler, uint64_t now_ns, uint32_t slot, uint64_t busy_ns);

// Sets the weight of a client, from 1. Returns 0.
//
// # Safety
// `scheduler` is NULL or a scheduler that no other thread uses now.
int32_t humpyard_set_weight(struct humpyard_scheduler *scheduler, uint64_t now_ns, uint32_t client, uint32_t weight);

// Ends a client that has no packets here. Returns 0. Another client may then get its number, and inherits only
// the weight.
//
// # Safety
// `scheduler` is NULL or a scheduler that no other thread uses now.
int32_t humpyard_end_client(struct humpyard_scheduler *scheduler, uint64_t now_ns, uint32_t client);

// Ends a flow that has no packets here. Returns 0. Another flow may then get its number.
//
// # Safety
// `scheduler` is NULL or a scheduler that no other thread uses now.
int32_t humpyard_end_flow(struct humpyard_scheduler *scheduler, uint64_t now_ns, uint32_t flow);

// Finds the time of a policy's next timeout. Returns 1, and the time in `at_ns`; 0 if no timeout is set. Call
// this after every other call. At that time, call `humpyard_on_timeout`.
//
// # Safety
// `scheduler` is NULL or a scheduler that no other thread uses now. `at_ns` is NULL or room for the answer.
int32_t humpyard_next_timeout(struct humpyard_scheduler *scheduler, uint64_t *at_ns);

// Runs the timeout that `humpyard_next_timeout` returned. Returns 0. Extra calls do no harm.
//
// # Safety
// `scheduler` is NULL or a scheduler that no other thread uses now.
int32_t humpyard_on_timeout(struct humpyard_scheduler *scheduler, uint64_t now_ns);

// Takes the next core that begins to switch to another service. Returns 1, and the switch in `core_switch`;
// 0 if there is none. If a policy allocates cores to services, call this repeatedly after every other call,
// until it returns 0. After the cost of the switch, call `humpyard_switched`.
//
// # Safety
// `scheduler` is NULL or a scheduler that no other thread uses now. `core_switch` is NULL or room for the
// answer.
int32_t humpyard_next_switch(struct humpyard_scheduler *scheduler, struct humpyard_switch *core_switch);

// Completes a core's switch to its new service. Returns 0.
//
// # Safety
// `scheduler` is NULL or a scheduler that no other thread uses now.
int32_t humpyard_switched(struct humpyard_scheduler *scheduler, uint64_t now_ns, uint16_t core);

// Writes the counts of all packets up to now. Returns 1.
//
// # Safety
// `scheduler` is NULL or a scheduler that no other thread uses now. `account` is NULL or room for the answer.
int32_t humpyard_account(struct humpyard_scheduler *scheduler, struct humpyard_account *account);

// Queues a burst of packets, in their order. Returns 0, and in `answers[i]` what `humpyard_arrive` would return for
// `packets[i]`: its slot, or a `humpyard_dropped`.
//
// The scheduler checks all packets first. If it refuses one, the call returns a `humpyard_error`, no packet has
// arrived, and `answers` is as it was. `humpyard_last_error` has the number of the packet. Only with
// `HUMPYARD_ERROR_BROKEN` some may have arrived.
//
// # Safety
// `scheduler` is NULL or a scheduler that no other thread uses now. `packets` is NULL or points to `count` packets,
// and `answers` NULL or points to place for as many answers; the two do not overlap.
int32_t humpyard_arrive_burst(struct humpyard_scheduler *scheduler,
                              uint64_t now_ns,
                              const struct humpyard_packet *packets,
                              size_t count,
                              int64_t *answers);

// Takes the packets that a core serves next, at most `count`. Returns their number, and the packets in
// `dispatches`; the core serves them in this order. Returns 0 if there is no packet that it may serve.
//
// `in_flight` does not limit a burst: it is the number of packets at which `humpyard_next_core` skips a core.
// If clients keep their order and several cores share a queue, a burst has at most one packet of a client.
//
// # Safety
// `scheduler` is NULL or a scheduler that no other thread uses now. `dispatches` is NULL or points to room for
// `count` packets.
int32_t humpyard_next_burst(struct humpyard_scheduler *scheduler,
                            uint64_t now_ns,
                            uint16_t core,
                            struct humpyard_dispatch *dispatches,
                            size_t count);

// Completes a burst of packets, in their order. Returns 0. `slots[i]` names a packet, and its core was busy
// for `busy_ns[i]`. If `busy_ns` is NULL, every packet has 0. The packets may be of several cores.
//
// The scheduler checks all slots first. If it refuses one, the call returns a `humpyard_error`, and no packet
// is complete. `humpyard_last_error` has the number of the packet. Only with `HUMPYARD_ERROR_BROKEN` some may
// be complete.
//
// # Safety
// `scheduler` is NULL or a scheduler that no other thread uses now. `slots` is NULL or points to `count`
// slots. `busy_ns` is NULL or points to `count` times.
int32_t humpyard_complete_burst(struct humpyard_scheduler *scheduler,
                                uint64_t now_ns,
                                const uint32_t *slots,
                                const uint64_t *busy_ns,
                                size_t count);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* HUMPYARD_H */
