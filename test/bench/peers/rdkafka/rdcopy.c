/*
 * rdcopy copies one topic to another, each record into the partition of the same number, exactly-once, with
 * librdkafka: one transaction after the other, each of the asked interval, the positions committed with it.
 * The environment tells what to do, see peers.go. SIGTERM commits what is open and ends with status 0; any error
 * ends with status 1. A restart fences the transaction that a killed instance has left (one transactional id) and
 * goes on from the committed positions. It may be one instance per group only.
 */
#include <librdkafka/rdkafka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    BATCH = 10000,      /* messages taken from the queue at a time */
    PATIENCE = 60000,   /* ms, for a call that has to succeed */
    IDLE = 500,         /* ms, how long to wait for a first message */
    PARTITIONS = 4096,  /* at most */
};

static volatile sig_atomic_t stopping;

static void stop(int signal) {
    (void)signal;
    stopping = 1;
}

static void die(const char *what, const char *why) {
    fprintf(stderr, "rdcopy: %s: %s\n", what, why);
    exit(1);
}

static void check(const char *what, rd_kafka_error_t *error) {
    if (error)
        die(what, rd_kafka_error_string(error));
}

static const char *need(const char *name) {
    const char *value = getenv(name);
    if (!value || !*value)
        die(name, "not set");
    return value;
}

static const char *choice(const char *name, const char *otherwise) {
    const char *value = getenv(name);
    return value && *value ? value : otherwise;
}

static long long interval(void) { /* ms */
    return atoll(choice("PEER_INTERVAL_MS", "100"));
}

static long long now(void) { /* ms */
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000LL + t.tv_nsec / 1000000;
}

static void set(rd_kafka_conf_t *conf, const char *key, const char *value) {
    char why[512];
    if (rd_kafka_conf_set(conf, key, value, why, sizeof why) != RD_KAFKA_CONF_OK)
        die(key, why);
}

/* further takes key=value,key=value from the environment. */
static void further(rd_kafka_conf_t *conf, const char *name) {
    char *list = strdup(choice(name, "")), *rest = NULL;
    for (char *key = strtok_r(list, ",", &rest); key; key = strtok_r(NULL, ",", &rest)) {
        char *value = strchr(key, '=');
        if (!value)
            die(name, "want key=value,key=value");
        *value++ = '\0';
        set(conf, key, value);
    }
    free(list);
}

static rd_kafka_t *open_client(rd_kafka_type_t type, rd_kafka_conf_t *conf) {
    char why[512];
    set(conf, "bootstrap.servers", need("PEER_BOOTSTRAP"));
    rd_kafka_t *rk = rd_kafka_new(type, conf, why, sizeof why);
    if (!rk)
        die("client", why);
    return rk;
}

static rd_kafka_t *open_consumer(void) {
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    set(conf, "group.id", need("PEER_GROUP"));
    if (*choice("PEER_INSTANCE", ""))
        set(conf, "group.instance.id", need("PEER_INSTANCE"));
    set(conf, "isolation.level", "read_committed");
    set(conf, "auto.offset.reset", "earliest");
    set(conf, "enable.auto.commit", "false");
    set(conf, "enable.auto.offset.store", "false");
    /* As every other client does by default: a record that was corrupted on its way must not be copied. */
    set(conf, "check.crcs", "true");
    set(conf, "fetch.message.max.bytes", "4194304");
    /* The bytes bound the queue, not the messages; a larger one costs memory and cache misses. The fetcher comes back
     * to a full one soon: by default it waits a second, and stalls. */
    set(conf, "queued.min.messages", "1000000");
    set(conf, "queued.max.messages.kbytes", "16384");
    set(conf, "fetch.queue.backoff.ms", "5");
    further(conf, "PEER_CONSUMER");
    rd_kafka_t *rk = open_client(RD_KAFKA_CONSUMER, conf);
    rd_kafka_poll_set_consumer(rk);
    rd_kafka_topic_partition_list_t *topics = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(topics, need("PEER_INPUT"), RD_KAFKA_PARTITION_UA);
    rd_kafka_resp_err_t err = rd_kafka_subscribe(rk, topics);
    if (err)
        die("subscribe", rd_kafka_err2str(err));
    rd_kafka_topic_partition_list_destroy(topics);
    return rk;
}

static rd_kafka_t *open_producer(void) {
    /* Nothing is seen before the commit, which flushes: to wait half an interval for fuller batches delays nothing. */
    char linger[24];
    snprintf(linger, sizeof linger, "%lld", interval() / 2);
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    set(conf, "transactional.id", need("PEER_GROUP"));
    set(conf, "transaction.timeout.ms", "60000");
    set(conf, "compression.type", choice("PEER_COMPRESSION", "none"));
    set(conf, "linger.ms", choice("PEER_LINGER_MS", linger));
    set(conf, "batch.size", "1000000");
    set(conf, "queue.buffering.max.messages", "200000");
    set(conf, "queue.buffering.max.kbytes", "32768");
    further(conf, "PEER_PRODUCER");
    return open_client(RD_KAFKA_PRODUCER, conf);
}

/* await_broker waits for a connection. Without one, the search for the coordinator is put off by half a second. The first
 * answer comes over the connection to the bootstrap address, which ends once the broker itself is known: so ask twice. */
static void await_broker(rd_kafka_t *rk, rd_kafka_topic_t *topic) {
    for (int i = 0; i < 2; i++) {
        const struct rd_kafka_metadata *known;
        rd_kafka_resp_err_t err = rd_kafka_metadata(rk, 0, topic, &known, PATIENCE);
        if (err)
            die("metadata", rd_kafka_err2str(err));
        rd_kafka_metadata_destroy(known);
    }
}

struct copy {
    rd_kafka_t *consumer, *producer;
    rd_kafka_queue_t *queue;
    rd_kafka_topic_t *to;
    const char *from;
    int open;              /* is a transaction */
    long long end, length; /* of it, ms */
    int64_t next[PARTITIONS]; /* position after the last record of the transaction; -1 = none */
};

/* put hands one message over to the producer, which copies key and value and takes the headers. */
static void put(struct copy *c, rd_kafka_message_t *m) {
    rd_kafka_headers_t *headers = NULL;
    rd_kafka_timestamp_type_t kind;
    rd_kafka_vu_t record[] = {
        {.vtype = RD_KAFKA_VTYPE_RKT, .u.rkt = c->to},
        {.vtype = RD_KAFKA_VTYPE_PARTITION, .u.i32 = m->partition},
        {.vtype = RD_KAFKA_VTYPE_MSGFLAGS, .u.i = RD_KAFKA_MSG_F_COPY},
        {.vtype = RD_KAFKA_VTYPE_KEY, .u.mem = {m->key, m->key_len}},
        {.vtype = RD_KAFKA_VTYPE_VALUE, .u.mem = {m->payload, m->len}},
        {.vtype = RD_KAFKA_VTYPE_TIMESTAMP, .u.i64 = rd_kafka_message_timestamp(m, &kind)},
        {.vtype = RD_KAFKA_VTYPE_HEADERS},
    };
    size_t fields = sizeof record / sizeof *record - 1;
    if (!rd_kafka_message_detach_headers(m, &headers))
        record[fields++].u.headers = headers;
    for (;;) {
        rd_kafka_error_t *error = rd_kafka_produceva(c->producer, record, fields);
        if (!error)
            break;
        if (rd_kafka_error_code(error) != RD_KAFKA_RESP_ERR__QUEUE_FULL)
            check("produce", error);
        rd_kafka_error_destroy(error);
        rd_kafka_poll(c->producer, 1);
    }
    if (m->partition >= PARTITIONS)
        die("partitions", "too many");
    c->next[m->partition] = m->offset + 1;
}

static void take(struct copy *c, rd_kafka_message_t *m) {
    if (m->err) {
        fprintf(stderr, "rdcopy: consume: %s\n", rd_kafka_message_errstr(m));
    } else {
        if (!c->open) {
            check("begin", rd_kafka_begin_transaction(c->producer));
            c->open = 1;
            c->end = now() + c->length;
        }
        put(c, m);
    }
    rd_kafka_message_destroy(m);
}

static void commit(struct copy *c) {
    rd_kafka_topic_partition_list_t *offsets = rd_kafka_topic_partition_list_new(8);
    for (int i = 0; i < PARTITIONS; i++) {
        if (c->next[i] >= 0)
            rd_kafka_topic_partition_list_add(offsets, c->from, i)->offset = c->next[i];
    }
    rd_kafka_consumer_group_metadata_t *group = rd_kafka_consumer_group_metadata(c->consumer);
    check("positions", rd_kafka_send_offsets_to_transaction(c->producer, offsets, group, PATIENCE));
    rd_kafka_consumer_group_metadata_destroy(group);
    rd_kafka_topic_partition_list_destroy(offsets);
    check("commit", rd_kafka_commit_transaction(c->producer, PATIENCE)); /* flushes first */
    memset(c->next, -1, sizeof c->next);
    c->open = 0;
}

int main(void) {
    static struct copy c;
    static rd_kafka_message_t *batch[BATCH];
    signal(SIGTERM, stop);
    signal(SIGINT, stop);
    c.from = need("PEER_INPUT");
    c.length = interval();
    memset(c.next, -1, sizeof c.next);
    c.consumer = open_consumer(); /* joins its group while the producer starts */
    c.producer = open_producer();
    c.to = rd_kafka_topic_new(c.producer, need("PEER_OUTPUT"), NULL);
    if (!c.to)
        die("topic", rd_kafka_err2str(rd_kafka_last_error()));
    await_broker(c.producer, c.to);
    check("init", rd_kafka_init_transactions(c.producer, PATIENCE));
    c.queue = rd_kafka_queue_get_consumer(c.consumer);

    while (!stopping) {
        /* A call for a batch waits until that is full or the time is up. So the wait is for one message, and what has
         * come with it is taken without one. */
        long long left = c.open ? c.end - now() : IDLE;
        if (left > 0) {
            rd_kafka_message_t *first = rd_kafka_consumer_poll(c.consumer, (int)left);
            if (first) {
                take(&c, first);
                ssize_t n = rd_kafka_consume_batch_queue(c.queue, 0, batch, BATCH);
                for (ssize_t i = 0; i < n; i++)
                    take(&c, batch[i]);
            }
        }
        rd_kafka_poll(c.producer, 0);
        if (c.open && now() >= c.end)
            commit(&c);
    }
    if (c.open)
        commit(&c);
    rd_kafka_topic_destroy(c.to);
    rd_kafka_queue_destroy(c.queue);
    rd_kafka_consumer_close(c.consumer);
    rd_kafka_destroy(c.consumer);
    rd_kafka_destroy(c.producer);
    return 0;
}
