// Schedules items of your own with humpyard: gr3 shares a printer among the jobs of three tenants, and ps-hrw spreads
// the messages of three connections over eight cores. The items stay with you; humpyard names each by its slot.
#include <stdio.h>
#include <stdlib.h>
#include "humpyard.h"

static int64_t must(int64_t answer) {
    if (answer >= 0) return answer;
    fprintf(stderr, "humpyard: %s\n", answer > HUMPYARD_ERROR_NULL ? "no room" : humpyard_last_error());
    exit(1);
}

// Counts the jobs of each tenant among the first 54 of 120 jobs of one printer (a core), at weights 5, 3 and 1.
static void share(void) {
    struct humpyard_config config = {.clients = 3, .weights = (uint32_t[]){5, 3, 1}, .weight_count = 3};
    struct humpyard_scheduler *printer = humpyard_new("gr3", &config);
    must(printer ? 0 : HUMPYARD_ERROR_NULL);
    uint32_t jobs[1024], done[3] = {0};
    for (uint32_t job = 0; job < 120; job++)
        jobs[must(humpyard_arrive(printer, 0, &(struct humpyard_packet){.client = job % 3, .length = 1000}))] = job;
    for (uint64_t now = 1; now <= 54; now++) {
        struct humpyard_dispatch dispatch;
        if (must(humpyard_next(printer, now, 0, &dispatch)) == 0) break;
        done[jobs[dispatch.slot] % 3]++; // Your work goes here.
        must(humpyard_complete(printer, now, dispatch.slot, 1));
    }
    humpyard_free(printer);
    printf("gr3: [%u, %u, %u] of 54 jobs\n", done[0], done[1], done[2]);
}

// Finds the cores that serve connections with 60, 30 and 10 of 100 bytes. Each of two sockets has two caches of
// two cores.
static void steer(void) {
    struct humpyard_config config = {.cores = 8, .flows = 3, .topology = "2x2x2"};
    struct humpyard_scheduler *server = humpyard_new("ps-hrw", &config);
    must(server ? 0 : HUMPYARD_ERROR_NULL);
    const struct humpyard_packet messages[] = {
        {.flow = 0, .key = 3, .length = 600}, {.flow = 1, .key = 4, .length = 300}, {.flow = 2, .key = 5, .length = 100}
    };
    for (int number = 0; number < 600; number++) must(humpyard_arrive(server, 0, &messages[number % 3]));
    bool cores[3][8] = {{false}};
    for (uint64_t now = 0; now < 8000; now++) {
        struct humpyard_dispatch dispatch;
        if (must(humpyard_next(server, now, now % 8, &dispatch)) == 0) continue;
        must(humpyard_complete(server, now, dispatch.slot, 1));
        must(humpyard_arrive(server, now, &messages[dispatch.packet.flow])); // The connection sends its next message.
        cores[dispatch.packet.flow][now % 8] |= now >= 4000;
    }
    humpyard_free(server);
    for (int i = 0; i < 3; i++) {
        printf(i > 0 ? ", {" : "ps-hrw: cores [{");
        for (int core = 0, found = 0; core < 8; core++)
            if (cores[i][core]) printf(found++ > 0 ? ", %d" : "%d", core);
        printf(i < 2 ? "}" : "}]\n");
    }
}

int main(void) {
    share();
    steer();
}
