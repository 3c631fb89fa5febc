// Shows the rules for threads: two threads share a scheduler behind a mutex, and each has a scheduler of its own.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "humpyard.h"

#define PACKETS 2000

struct guarded {
    pthread_mutex_t mutex;
    struct humpyard_scheduler *scheduler;
    uint64_t now; // Times never go back, whichever thread calls.
};

static struct guarded shared = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void must(bool good) {
    if (good) return;
    fprintf(stderr, "threads: %s\n", humpyard_last_error());
    exit(1);
}

// Lets a packet arrive, and serves the next packet.
static void step(struct humpyard_scheduler *scheduler, uint64_t now, uint32_t client) {
    struct humpyard_packet packet = {.client = client, .length = 100};
    struct humpyard_dispatch dispatch;
    must(humpyard_arrive(scheduler, now, &packet) >= 0);
    must(humpyard_next(scheduler, now, 0, &dispatch) == 1);
    must(humpyard_complete(scheduler, now, dispatch.slot, 1) == 0);
}

static struct humpyard_scheduler *new_scheduler(void) {
    struct humpyard_scheduler *scheduler = humpyard_new("gr3", &(struct humpyard_config){.clients = 2});
    must(scheduler != NULL);
    return scheduler;
}

static void *run(void *client) {
    struct humpyard_scheduler *own = new_scheduler();
    for (uint64_t now = 0; now < PACKETS; now++) {
        step(own, now, 0);
        must(humpyard_complete(own, now, 0, 1) == HUMPYARD_ERROR_ORDER); // Refused: this thread has the message.
        pthread_mutex_lock(&shared.mutex);
        step(shared.scheduler, ++shared.now, *(uint32_t *)client);
        pthread_mutex_unlock(&shared.mutex);
    }
    humpyard_free(own);
    return NULL;
}

int main(void) {
    pthread_t threads[2];
    uint32_t clients[2] = {0, 1};
    shared.scheduler = new_scheduler();
    for (int i = 0; i < 2; i++) must(pthread_create(&threads[i], NULL, run, &clients[i]) == 0);
    for (int i = 0; i < 2; i++) must(pthread_join(threads[i], NULL) == 0);
    struct humpyard_account account;
    must(humpyard_account(shared.scheduler, &account) == 1);
    must(account.arrived == 2 * PACKETS && account.processed == 2 * PACKETS);
    humpyard_free(shared.scheduler);
    printf("2 threads, %d packets each\n", PACKETS);
}
