// humpyard: scheduling policies that share many cores among packets, for programs in C.
//
// A scheduler holds packets and says which core serves which of them next, and when. It has no clock, no thread and no I/O:
// the program tells it of arrivals and completions, with times in nanoseconds that never go back.
//
// A call that gives a negative number was refused, a `humpyard_error`, and has changed nothing; `humpyard_last_error` has the
// words. NULL, ids out of range and slots not in service are refused so.
//
// Threads: one thread at a time uses a scheduler; any thread may be the next, if a lock or another hand-over orders the two.
// Calls of two threads at once on one scheduler damage it, and the library does not notice. Schedulers share nothing:
// different threads use different ones freely. The words and the code of the last failure are those of the calling thread.
//
// Memory: `humpyard_new` allocates all that a scheduler needs. After it no call allocates or frees memory, but for one that is
// refused, which keeps its words, and `humpyard_free`.
//
// Until version 1 a new minor version may need programs to be compiled anew; the name of the shared library then changes.

#ifndef HUMPYARD_H
#define HUMPYARD_H

// Generated from crates/humpyard-capi/src: HUMPYARD_RENEW=1 cargo test -p humpyard-capi --test header writes it anew.

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Why a packet was dropped.
enum humpyard_dropped {
    // As many packets were held as the scheduler has room for.
    HUMPYARD_DROPPED_BUFFER_FULL = -1,
    // The queue it was to join held as many packets as a queue may.
    HUMPYARD_DROPPED_QUEUE_FULL = -2,
    // Its client had as many packets waiting as a client may.
    HUMPYARD_DROPPED_CLIENT_FULL = -3,
    // Its room was given to another packet: never in this version, in which the packet that comes is the one dropped.
    HUMPYARD_DROPPED_PUSHED_OUT = -4,
};

// Why a call was refused; `humpyard_last_error` says more.
enum humpyard_error {
    // A pointer is NULL that must not be.
    HUMPYARD_ERROR_NULL = -100,
    // An argument is not what it may be, such as an id out of range.
    HUMPYARD_ERROR_ARGUMENT = -101,
    // The call does not go with those before: time goes back, or the packet is not in service.
    HUMPYARD_ERROR_ORDER = -102,
    // The scheduler failed inside, now or before: it can only be freed.
    HUMPYARD_ERROR_BROKEN = -103,
    // No policy has this name, or no family.
    HUMPYARD_ERROR_UNKNOWN_POLICY = -110,
    // The policy has no parameter of this name.
    HUMPYARD_ERROR_UNKNOWN_PARAMETER = -111,
    // The text names no policies, or gives a family or a parameter twice.
    HUMPYARD_ERROR_SYNTAX = -112,
    // A parameter does not take this value.
    HUMPYARD_ERROR_BAD_VALUE = -113,
    // Policies, parameters and configuration are each good, and do not go together.
    HUMPYARD_ERROR_COMBINATION = -114,
    // It would take more memory, or greater numbers, than there can be.
    HUMPYARD_ERROR_TOO_LARGE = -115,
    // The configuration describes nothing that can be: more weights than clients, for example.
    HUMPYARD_ERROR_SET_UP = -116,
};

// The unit of work.
enum humpyard_unit {
    // Bytes: a packet is charged its length.
    HUMPYARD_UNIT_BYTES = 0,
    // Packets: every packet is charged one.
    HUMPYARD_UNIT_PACKETS = 1,
    // Nanoseconds of one core: a packet is charged what it took.
    HUMPYARD_UNIT_NANOSECONDS = 2,
};

// Which part of a longer unit a packet is.
enum humpyard_part {
    // All of it.
    HUMPYARD_PART_WHOLE = 0,
    // Its start.
    HUMPYARD_PART_FIRST = 1,
    // Neither start nor end.
    HUMPYARD_PART_MIDDLE = 2,
    // Its end.
    HUMPYARD_PART_LAST = 3,
};

// Packets, their queues, and the policies that order them.
struct humpyard_scheduler;

// What is known of a service. All 0 is a service that says nothing of itself.
struct humpyard_service {
    // What a typical packet takes a core.
    uint64_t packet_time_ns;
    // What it takes a core to go over to this service.
    uint64_t switch_cost_ns;
    // The longest tolerable delay; 0 is any.
    uint64_t tolerance_ns;
    // What a packet of no length is believed to cost, in the unit of work. With `per_byte_milli` and `cold` 0 too, a packet
    // costs its bytes, one packet, or a nanosecond for each byte.
    uint32_t fixed;
    // What each byte is believed to cost, in thousandths of the unit of work.
    uint32_t per_byte_milli;
    // What is believed to come on top where a core served another service before.
    uint32_t cold;
    // The share of the cores that it is guaranteed, in millionths; of all services together at most a million.
    uint32_t guarantee_millionths;
};

// What a scheduler is made for. All 0 is one core, one client, one flow, one service, and room for 1024 packets.
struct humpyard_config {
    // Number of cores; 0 is 1.
    uint32_t cores;
    // Contexts of each processing element: so many consecutive cores take turns computing. 0 is 1.
    uint32_t contexts;
    // Which cores are near each other: fan-outs from the root such as "2x2x2" (sockets, caches, cores), with the cost of
    // crossing each level from 1 if it is not the usual: "2x4:2.0,1.2". NULL is all the same.
    const char *topology;
    // Speeds of the first cores, in thousandths of the speed that estimates hold for; the others have 1000.
    const uint32_t *speeds;
    // How many speeds there are.
    size_t speed_count;
    // Number of clients; 0 is 1.
    uint32_t clients;
    // Number of flows; 0 is 1.
    uint32_t flows;
    // Most packets held at once, waiting or in service; 0 is 1024.
    uint32_t packets;
    // Length of the longest packet, in bytes: a longer one is refused. 0 is 1514.
    uint32_t longest;
    // Weights of the first clients, from 1; the others have 1.
    const uint32_t *weights;
    // How many weights there are.
    size_t weight_count;
    // The services.
    const struct humpyard_service *services;
    // How many services there are; 0 is one that has all cores.
    size_t service_count;
    // Most packets waiting in one queue; 0 is any number.
    uint32_t queue_limit;
    // Most packets waiting of one client in one queue; 0 is any number.
    uint32_t client_limit;
    // Packets that a core may be handed at a time; 0 is 1.
    uint32_t in_flight;
    // Of how many services a core keeps the code: to go back to one of them takes it no time. 0 is 1.
    uint16_t services_per_core;
    // The unit of work, a `humpyard_unit`.
    uint8_t unit;
    // Whether several cores may serve one client at once, so that its packets may overtake; 0 is no.
    uint8_t free_order;
    // Whether of two equals the higher id goes first; 0 is no.
    uint8_t ties_highest;
    // Where random policies draw from; 0 is 1.
    uint64_t seed;
};

// What is known of one packet. What it holds stays with the program.
struct humpyard_packet {
    // A hash of its connection, the same in both directions. Policies that steer by hash take this.
    uint64_t key;
    // The work that it is believed to be. Of an arriving packet only `oracle` asks for it.
    uint64_t estimate;
    // Its flow, from 0.
    uint32_t flow;
    // Whose share it is charged to, from 0.
    uint32_t client;
    // Its length in bytes.
    uint32_t length;
    // The Toeplitz hash of its connection.
    uint32_t rss;
    // What is to be done to it, from 0.
    uint16_t service;
    // Which part of a longer unit it is, a `humpyard_part`.
    uint8_t part;
    // Whether it begins or ends its connection, as SYN, FIN and RST do; 0 is no. `sprayer` asks for it.
    uint8_t changes_connection;
};

// A packet to be served.
struct humpyard_dispatch {
    // When it arrived.
    uint64_t arrival_ns;
    // Its number among the packets that were not dropped, from 0.
    uint64_t sequence;
    // The packet.
    struct humpyard_packet packet;
    // Its slot, to be named when it is complete.
    uint32_t slot;
    // Whether the core's previous packet had another service, or there was none.
    bool cold;
};

// A core that goes over to another service.
struct humpyard_switch {
    // How long it takes.
    uint64_t cost_ns;
    // The core, which serves nothing meanwhile.
    uint16_t core;
    // Where it goes.
    uint16_t to;
};

// What became of the packets that came: arrived = processed + held + the dropped, always.
struct humpyard_account {
    // Packets that arrived.
    uint64_t arrived;
    // Packets that are complete.
    uint64_t processed;
    // Packets waiting or in service now.
    uint64_t held;
    // Packets dropped since the scheduler had no room.
    uint64_t buffer_full;
    // Packets dropped since their queue had no room.
    uint64_t queue_full;
    // Packets dropped since their client had too many waiting.
    uint64_t client_full;
};

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The version of the library, such as "0.1.0".
const char *humpyard_version(void);

// Why the last call of this thread that failed did so, in one line of UTF-8; empty if none failed. It stays until the next
// call of this thread that fails.
const char *humpyard_last_error(void);

// Returns the code of the last call of this thread that failed, a `humpyard_error`; 0 if none failed. It is how a
// program learns why `humpyard_new` returned NULL: an unknown policy, a bad value, and so on.
int32_t humpyard_last_error_code(void);

// A new scheduler, or NULL if there cannot be one; `humpyard_last_error` says why, `humpyard_last_error_code` which
// kind of reason it is.
//
// `policy` names policies, with parameters: "gr3", "ps-hrw:beta=0.1", "steer=hrw/share=drr". `config` may be NULL, for all
// defaults. Neither is kept.
//
// # Safety
// `policy` is NULL or a string, and `config` NULL or a configuration whose pointers are NULL or point to what they say.
struct humpyard_scheduler *humpyard_new(const char *policy,
                                        const struct humpyard_config *config);

// Gives back all memory of a scheduler, with the packets that it holds. NULL is nothing to do.
//
// # Safety
// `scheduler` is NULL, or comes from `humpyard_new` and was not freed.
void humpyard_free(struct humpyard_scheduler *scheduler);

// A packet arrives: the slot, from 0, that it is named by until it is complete. Or it is dropped, a `humpyard_dropped`, or
// the call is refused, a `humpyard_error`; both are negative.
//
// # Safety
// `scheduler` is NULL or a scheduler that no other thread uses now, and `packet` NULL or a packet.
int64_t humpyard_arrive(struct humpyard_scheduler *scheduler,
                        uint64_t now_ns,
                        const struct humpyard_packet *packet);

// Finds a core that has room and for which something may wait: 1 and its number in `core`, or 0 if there is none. Ask
// `humpyard_next` for it, and then this again, until it says 0: then every core has what it can have.
//
// # Safety
// `scheduler` is NULL or a scheduler that no other thread uses now, and `core` NULL or a place for the answer.
int32_t humpyard_next_core(struct humpyard_scheduler *scheduler, uint64_t now_ns, uint16_t *core);

// Takes the packet that a core serves next: 1 and the packet in `dispatch`, or 0 if nothing waits that it may serve. The
// program does the work, and then calls `humpyard_complete`.
//
// # Safety
// `scheduler` is NULL or a scheduler that no other thread uses now, and `dispatch` NULL or a place for the answer.
int32_t humpyard_next(struct humpyard_scheduler *scheduler,
                      uint64_t now_ns,
                      uint16_t core,
                      struct humpyard_dispatch *dispatch);

// The packet in this slot is done, with which its core was busy for `busy_ns`: 0. The slot may then be used for another
// packet. Where work is in nanoseconds, `busy_ns` is what the packet is charged, up to about a million times what the longest
// packet is believed to cost; else it may be 0.
//
// # Safety
// `scheduler` is NULL or a scheduler that no other thread uses now.
int32_t humpyard_complete(struct humpyard_scheduler *scheduler,
                          uint64_t now_ns,
                          uint32_t slot,
                          uint64_t busy_ns);

// Gives a client another weight, from 1: 0.
//
// # Safety
// `scheduler` is NULL or a scheduler that no other thread uses now.
int32_t humpyard_set_weight(struct humpyard_scheduler *scheduler, uint64_t now_ns, uint32_t client, uint32_t weight);

// A client without packets here is gone: 0. Its number may be used for another, which inherits nothing but the weight.
//
// # Safety
// `scheduler` is NULL or a scheduler that no other thread uses now.
int32_t humpyard_end_client(struct humpyard_scheduler *scheduler, uint64_t now_ns, uint32_t client);

// A flow without packets here is over: 0. Its number may be used for another.
//
// # Safety
// `scheduler` is NULL or a scheduler that no other thread uses now.
int32_t humpyard_end_flow(struct humpyard_scheduler *scheduler, uint64_t now_ns, uint32_t flow);

// Finds when a policy wants to be told of the time: 1 and the time in `at_ns`, or 0 for never. To be asked after every other
// call; at that time the program calls `humpyard_on_timeout`.
//
// # Safety
// `scheduler` is NULL or a scheduler that no other thread uses now, and `at_ns` NULL or a place for the answer.
int32_t humpyard_next_timeout(struct humpyard_scheduler *scheduler,
                              uint64_t *at_ns);

// The time has come that `humpyard_next_timeout` named: 0. Being told too often does no harm.
//
// # Safety
// `scheduler` is NULL or a scheduler that no other thread uses now.
int32_t humpyard_on_timeout(struct humpyard_scheduler *scheduler, uint64_t now_ns);

// Takes the next core that begins to go over to another service: 1 and which in `core_switch`, or 0 if there is none. Where
// cores are allocated to services this is asked after every other call until it says 0. When the cost of the switch has
// passed, the program calls `humpyard_switched`.
//
// # Safety
// `scheduler` is NULL or a scheduler that no other thread uses now, and `core_switch` NULL or a place for the answer.
int32_t humpyard_next_switch(struct humpyard_scheduler *scheduler,
                             struct humpyard_switch *core_switch);

// The core has gone over to its new service, and is ready: 0.
//
// # Safety
// `scheduler` is NULL or a scheduler that no other thread uses now.
int32_t humpyard_switched(struct humpyard_scheduler *scheduler, uint64_t now_ns, uint16_t core);

// Writes what became of every packet so far: 1.
//
// # Safety
// `scheduler` is NULL or a scheduler that no other thread uses now, and `account` NULL or a place for the answer.
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

// Takes the packets that a core serves next, at most `count`. Returns their number, and the packets in `dispatches`;
// the core serves them in this order. 0 if nothing waits that it may serve.
//
// `in_flight` does not limit a burst: it says how many packets a core has before `humpyard_next_core` passes it over.
// Where clients keep their order and several cores share a queue, a burst has at most one packet of a client.
//
// # Safety
// `scheduler` is NULL or a scheduler that no other thread uses now. `dispatches` is NULL or points to place for
// `count` packets.
int32_t humpyard_next_burst(struct humpyard_scheduler *scheduler,
                            uint64_t now_ns,
                            uint16_t core,
                            struct humpyard_dispatch *dispatches,
                            size_t count);

// Completes a burst of packets, in their order: 0. `slots[i]` names a packet, and its core was busy for `busy_ns[i]`.
// `busy_ns` may be NULL: 0 for every packet. The packets may be of several cores.
//
// The scheduler checks all slots first. If it refuses one, the call returns a `humpyard_error`, and no packet is
// complete. `humpyard_last_error` has the number of the packet. Only with `HUMPYARD_ERROR_BROKEN` some may be
// complete.
//
// # Safety
// `scheduler` is NULL or a scheduler that no other thread uses now. `slots` is NULL or points to `count` slots, and
// `busy_ns` NULL or to as many times.
int32_t humpyard_complete_burst(struct humpyard_scheduler *scheduler,
                                uint64_t now_ns,
                                const uint32_t *slots,
                                const uint64_t *busy_ns,
                                size_t count);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* HUMPYARD_H */
