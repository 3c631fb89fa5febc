// A closed loop over one of DPDK's event devices, by its public API. IN_FLIGHT events circulate. A
// worker takes a burst, touches each event, names the flow of its next hop and forwards it to the
// only queue. Prints the results as `key=value` lines.
//
//     eventdev EAL-ARGUMENTS -- DEVICE TYPE WORKERS IN_FLIGHT FLOWS BURST DEPTH HOP MILLISECONDS
//
// TYPE is atomic, ordered or parallel. HOP is added to an event's flow at each hop; 0 keeps the
// flow. A worker runs on each of the first WORKERS lcores. A device that schedules in software on
// its own core (event_sw) gets the lcore after them. `rte_event_maintain` is experimental in DPDK
// 22.11.
#define ALLOW_EXPERIMENTAL_API
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_common.h>
#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_eventdev.h>
#include <rte_lcore.h>
#include <rte_service.h>
#include <rte_version.h>

#define WORKERS_MAX 8
#define BURST_MAX 256
#define EVENTS_MAX 4096
#define QUEUE 0
// Rounds between two looks at the clock.
#define LOOK_EVERY 64
#define WARM_UP_MS 100

// The counts of a worker, in its own cache lines.
struct worker {
    uint8_t port;
    volatile uint64_t events;
    // Events that it got after the end of the run, and the touches that these had counted.
    uint64_t retired;
    uint64_t touches;
} __rte_cache_aligned;

static struct worker workers[WORKERS_MAX];
static volatile bool over;
// Events not yet retired, once it is over.
static int32_t left;

static uint8_t device;
static uint8_t type;
static unsigned workers_count, in_flight, flows, burst, depth, hop, milliseconds;

static _Noreturn void fail(const char *what, int error) {
    fprintf(stderr, "eventdev: %s: %s\n", what, rte_strerror(error < 0 ? -error : error));
    exit(1);
}

static void must(const char *what, int result) {
    if (result < 0) {
        fail(what, result);
    }
}

// Returns the word of an event of this flow. It is written at once: reading a word whose bit fields
// were written one by one stalls.
static uint64_t word(uint8_t operation, uint32_t flow) {
    struct rte_event event = {0};
    event.op = operation;
    event.flow_id = flow;
    event.sched_type = type;
    event.queue_id = QUEUE;
    event.event_type = RTE_EVENT_TYPE_CPU;
    return event.event;
}

static void enqueue(uint8_t port, const struct rte_event *events, uint16_t count) {
    uint16_t sent = 0;
    while (sent < count) {
        sent += rte_event_enqueue_burst(device, port, events + sent, count - sent);
    }
}

// One round: a burst in, each event touched, the burst out.
static uint16_t round_trip(struct worker *worker) {
    struct rte_event events[BURST_MAX];
    uint16_t count = rte_event_dequeue_burst(device, worker->port, events, burst, 0);
    if (count == 0) {
        // Some devices keep events back to send more at a time; this flushes them.
        rte_event_maintain(device, worker->port, RTE_EVENT_DEV_MAINT_OP_FLUSH);
        return 0;
    }
    const uint64_t forward = word(RTE_EVENT_OP_FORWARD, 0);
    for (uint16_t i = 0; i < count; i++) {
        // The flow is in the lowest bits of the word, and the number of flows is a power of two.
        uint32_t flow = ((uint32_t)events[i].event + hop) & (flows - 1);
        events[i].event = forward | flow;
        events[i].u64 += 1;
    }
    enqueue(worker->port, events, count);
    worker->events += count;
    return count;
}

// Removes the circulating events.
static void retire(struct worker *worker) {
    struct rte_event events[BURST_MAX];
    uint64_t deadline = rte_get_timer_cycles() + 2 * rte_get_timer_hz();
    while (__atomic_load_n(&left, __ATOMIC_RELAXED) > 0 && rte_get_timer_cycles() < deadline) {
        uint16_t count = rte_event_dequeue_burst(device, worker->port, events, burst, 0);
        for (uint16_t i = 0; i < count; i++) {
            worker->touches += events[i].u64;
            events[i].op = RTE_EVENT_OP_RELEASE;
        }
        if (count == 0) {
            rte_event_maintain(device, worker->port, RTE_EVENT_DEV_MAINT_OP_FLUSH);
        } else {
            enqueue(worker->port, events, count);
            worker->retired += count;
            __atomic_sub_fetch(&left, count, __ATOMIC_RELAXED);
        }
    }
}

static int work(void *argument) {
    struct worker *worker = argument;
    while (!over) {
        round_trip(worker);
    }
    retire(worker);
    return 0;
}

static uint64_t all_events(void) {
    uint64_t events = 0;
    for (unsigned i = 0; i < workers_count; i++) {
        events += workers[i].events;
    }
    return events;
}

// Works on this thread for `ms` milliseconds; returns the cycles that this really took.
static uint64_t work_for(struct worker *worker, unsigned ms) {
    uint64_t begun = rte_get_timer_cycles(), now = begun;
    uint64_t until = begun + rte_get_timer_hz() * ms / 1000;
    while (now < until) {
        for (unsigned round = 0; round < LOOK_EVERY; round++) {
            round_trip(worker);
        }
        now = rte_get_timer_cycles();
    }
    return now - begun;
}

static void configure(void) {
    struct rte_event_dev_config config = {
        .nb_event_queues = 1,
        .nb_event_ports = workers_count,
        .nb_events_limit = EVENTS_MAX,
        .nb_event_queue_flows = flows,
        .nb_event_port_dequeue_depth = depth,
        .nb_event_port_enqueue_depth = depth,
    };
    must("configure the device", rte_event_dev_configure(device, &config));
    struct rte_event_queue_conf queue = {
        .nb_atomic_flows = flows,
        .nb_atomic_order_sequences = flows,
        .schedule_type = type,
        .priority = RTE_EVENT_DEV_PRIORITY_NORMAL,
    };
    must("set up the queue", rte_event_queue_setup(device, QUEUE, &queue));
    for (uint8_t port = 0; port < workers_count; port++) {
        struct rte_event_port_conf settings = {
            .new_event_threshold = EVENTS_MAX,
            .dequeue_depth = depth,
            .enqueue_depth = depth,
        };
        must("set up a port", rte_event_port_setup(device, port, &settings));
        if (rte_event_port_link(device, port, NULL, NULL, 0) != 1) {
            fail("link a port", rte_errno);
        }
        workers[port].port = port;
    }
}

// Gives the device the lcore that it schedules on, if it needs one; returns whether it does.
static bool start_scheduler(void) {
    uint32_t service;
    if (rte_event_dev_service_id_get(device, &service) != 0) {
        return false;
    }
    unsigned lcore = rte_get_main_lcore();
    for (unsigned i = 0; i < workers_count; i++) {
        lcore = rte_get_next_lcore(lcore, 1, 0);
    }
    if (lcore >= RTE_MAX_LCORE) {
        fprintf(stderr, "eventdev: the device schedules on a core of its own: give one more lcore\n");
        exit(1);
    }
    must("make a service core", rte_service_lcore_add(lcore));
    must("give the service its core", rte_service_map_lcore_set(service, lcore, 1));
    must("start the service", rte_service_runstate_set(service, 1));
    must("start the service core", rte_service_lcore_start(lcore));
    return true;
}

static void inject(void) {
    for (unsigned i = 0; i < in_flight; i++) {
        struct rte_event event = {.event = word(RTE_EVENT_OP_NEW, i & (flows - 1)), .u64 = 0};
        while (rte_event_enqueue_new_burst(device, 0, &event, 1) != 1) {
            rte_event_maintain(device, 0, RTE_EVENT_DEV_MAINT_OP_FLUSH);
        }
    }
}

static unsigned number(const char *text, const char *what, unsigned least, unsigned most) {
    char *end;
    unsigned long value = strtoul(text, &end, 10);
    if (*end != '\0' || value < least || value > most) {
        fprintf(stderr, "eventdev: %s is %u to %u, not %s\n", what, least, most, text);
        exit(1);
    }
    return value;
}

static void parse(int argc, char **argv) {
    if (argc != 10) {
        fprintf(stderr, "eventdev: after -- come DEVICE TYPE WORKERS IN_FLIGHT FLOWS BURST DEPTH HOP MILLISECONDS\n");
        exit(1);
    }
    int found = rte_event_dev_get_dev_id(argv[1]);
    must("find the device", found);
    device = found;
    static const char *const names[] = {"ordered", "atomic", "parallel"};
    static const uint8_t types[] = {RTE_SCHED_TYPE_ORDERED, RTE_SCHED_TYPE_ATOMIC, RTE_SCHED_TYPE_PARALLEL};
    unsigned which = 0;
    while (which < RTE_DIM(names) && strcmp(argv[2], names[which]) != 0) {
        which++;
    }
    if (which == RTE_DIM(names)) {
        fprintf(stderr, "eventdev: TYPE is atomic, ordered or parallel\n");
        exit(1);
    }
    type = types[which];
    workers_count = number(argv[3], "WORKERS", 1, WORKERS_MAX);
    in_flight = number(argv[4], "IN_FLIGHT", 1, EVENTS_MAX / 2);
    flows = number(argv[5], "FLOWS", 1, 1 << 20);
    if (!rte_is_power_of_2(flows)) {
        fprintf(stderr, "eventdev: FLOWS must be a power of two\n");
        exit(1);
    }
    burst = number(argv[6], "BURST", 1, BURST_MAX);
    depth = number(argv[7], "DEPTH", 1, 1024);
    hop = number(argv[8], "HOP", 0, flows);
    milliseconds = number(argv[9], "MILLISECONDS", 1, 1000000);
}

int main(int argc, char **argv) {
    int eal = rte_eal_init(argc, argv);
    if (eal < 0) {
        fail("start DPDK", rte_errno);
    }
    parse(argc - eal, argv + eal);
    configure();
    bool schedules = start_scheduler();
    must("start the device", rte_event_dev_start(device));
    inject();
    unsigned lcore = rte_get_main_lcore();
    for (unsigned i = 1; i < workers_count; i++) {
        lcore = rte_get_next_lcore(lcore, 1, 0);
        must("start a worker", rte_eal_remote_launch(work, &workers[i], lcore));
    }
    work_for(&workers[0], WARM_UP_MS);
    uint64_t before = all_events();
    uint64_t cycles = work_for(&workers[0], milliseconds);
    uint64_t events = all_events() - before;
    __atomic_store_n(&left, (int32_t)in_flight, __ATOMIC_RELAXED);
    over = true;
    retire(&workers[0]);
    rte_eal_mp_wait_lcore();
    uint64_t retired = 0, touches = 0;
    for (unsigned i = 0; i < workers_count; i++) {
        retired += workers[i].retired;
        touches += workers[i].touches;
    }
    if (retired != in_flight || touches != all_events()) {
        fprintf(stderr, "eventdev: %" PRIu64 " of %u events came back, with %" PRIu64 " touches of %" PRIu64 "\n", retired,
                in_flight, touches, all_events());
        exit(1);
    }
    printf("version=%s\n", rte_version());
    printf("scheduler_core=%d\n", schedules);
    for (unsigned i = 0; i < workers_count; i++) {
        printf("worker_events=%" PRIu64 "\n", (uint64_t)workers[i].events);
    }
    printf("events=%" PRIu64 "\n", events);
    printf("nanoseconds=%" PRIu64 "\n", (uint64_t)((double)cycles * 1e9 / rte_get_timer_hz()));
    fflush(stdout);
    // The service core still runs, so nothing is cleaned up.
    _Exit(0);
}
