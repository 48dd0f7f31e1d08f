package peers;

import java.time.Duration;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.Record;

/**
 * Copies one topic to another with Kafka Streams, each record into the partition of the same number, exactly-once. The
 * environment tells what to do, see peers.go. SIGTERM commits and ends with status 0; an error that Streams does not get
 * over ends with status 1. After a kill it goes on from the committed positions.
 */
public final class StreamsCopy {
    /**
     * The partition of the record on its way through this thread. The partitioner sees no more of a record than key and
     * value, but is called by the thread that forwards it.
     */
    private static final ThreadLocal<Set<Integer>> PARTITION = new ThreadLocal<>();

    private static final class Copy extends ContextualProcessor<byte[], byte[], byte[], byte[]> {
        private Set<Integer> partition;

        @Override
        public void process(Record<byte[], byte[]> record) {
            if (partition == null) {
                partition = Set.of(context().taskId().partition());
            }
            PARTITION.set(partition);
            context().forward(record);
        }
    }

    private static String need(String name) {
        String value = choice(name, "");
        if (value.isEmpty()) {
            throw new IllegalArgumentException(name + ": not set");
        }
        return value;
    }

    private static String choice(String name, String otherwise) {
        String value = System.getenv(name);
        return value == null || value.isEmpty() ? otherwise : value;
    }

    /** Adds key=value,key=value from the environment. */
    private static void further(Properties p, String prefix, String name) {
        for (String pair : choice(name, "").split(",")) {
            int at = pair.indexOf('=');
            if (at > 0) {
                p.put(prefix + pair.substring(0, at), pair.substring(at + 1));
            }
        }
    }

    private static Properties settings() {
        Properties p = new Properties();
        p.put(StreamsConfig.APPLICATION_ID_CONFIG, need("PEER_GROUP"));
        p.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, need("PEER_BOOTSTRAP"));
        p.put(StreamsConfig.STATE_DIR_CONFIG, need("PEER_STATE"));
        p.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        long interval = Long.parseLong(choice("PEER_INTERVAL_MS", "100"));
        p.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, interval);
        p.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, choice("PEER_THREADS", "1"));
        String instance = choice("PEER_INSTANCE", "");
        if (!instance.isEmpty()) {
            p.put(StreamsConfig.consumerPrefix("group.instance.id"), instance);
        }
        p.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");
        // One poll is worked off before the next: more records cost less, until a poll takes longer than an interval.
        p.put(StreamsConfig.consumerPrefix("max.poll.records"), "5000");
        p.put(StreamsConfig.consumerPrefix("max.partition.fetch.bytes"), "4194304");
        p.put(StreamsConfig.producerPrefix("batch.size"), "262144");
        p.put(StreamsConfig.producerPrefix("buffer.memory"), "134217728");
        // Nothing is seen before the commit, which flushes: to wait half an interval for fuller batches delays nothing.
        p.put(StreamsConfig.producerPrefix("linger.ms"), choice("PEER_LINGER_MS", Long.toString(interval / 2)));
        p.put(StreamsConfig.producerPrefix("compression.type"), choice("PEER_COMPRESSION", "none"));
        further(p, "consumer.", "PEER_CONSUMER");
        further(p, "producer.", "PEER_PRODUCER");
        further(p, "", "PEER_STREAMS");
        return p;
    }

    private static Topology topology() {
        Topology topology = new Topology();
        topology.addSource("in", new ByteArrayDeserializer(), new ByteArrayDeserializer(), need("PEER_INPUT"));
        topology.addProcessor("copy", Copy::new, "in");
        topology.addStateStore(new Anchor(), "copy");
        topology.addSink("out", need("PEER_OUTPUT"), new ByteArraySerializer(), new ByteArraySerializer(),
                (topic, key, value, partitions) -> Optional.of(PARTITION.get()), "copy");
        return topology;
    }

    public static void main(String[] args) {
        KafkaStreams streams = new KafkaStreams(topology(), settings());
        streams.setStateListener((now, before) -> {
            if (now == KafkaStreams.State.ERROR) {
                Runtime.getRuntime().halt(1);
            }
        });
        // In the hook and not after main: halt gives the status, which would be that of the signal.
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            boolean closed = streams.close(Duration.ofSeconds(20));
            Runtime.getRuntime().halt(closed ? 0 : 1);
        }));
        streams.start();
    }
}
