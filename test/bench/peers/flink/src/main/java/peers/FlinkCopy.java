package peers;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.List;
import java.util.Optional;
import java.util.Properties;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.TypeHint;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.lineage.DefaultKafkaDatasetFacet;
import org.apache.flink.connector.kafka.lineage.DefaultKafkaDatasetIdentifier;
import org.apache.flink.connector.kafka.lineage.KafkaDatasetFacet;
import org.apache.flink.connector.kafka.lineage.KafkaDatasetFacetProvider;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.sink.TransactionNamingStrategy;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.connector.kafka.source.reader.deserializer.KafkaRecordDeserializationSchema;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.util.Collector;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.OffsetResetStrategy;
import org.apache.kafka.clients.producer.ProducerRecord;
import sun.misc.Signal;

/**
 * Copies one topic to another with Flink's Kafka source and sink, each record into the partition of the same number,
 * exactly-once: a checkpoint every interval, and a transaction from each to the next. The cluster is a local one, in this
 * process. The environment tells what to do, see peers.go. SIGTERM stops with a savepoint and status 0. A start goes on
 * from the newest checkpoint, as a job manager with high availability does.
 */
public final class FlinkCopy {
    /** Hands on what the client has read, as it is: source and sink are chained, nothing is serialized between them. */
    private static final class AsRead implements KafkaRecordDeserializationSchema<ConsumerRecord<byte[], byte[]>> {
        private static final long serialVersionUID = 1;

        @Override
        public void deserialize(ConsumerRecord<byte[], byte[]> record, Collector<ConsumerRecord<byte[], byte[]>> out) {
            out.collect(record);
        }

        @Override
        public TypeInformation<ConsumerRecord<byte[], byte[]>> getProducedType() {
            return TypeInformation.of(new TypeHint<ConsumerRecord<byte[], byte[]>>() {});
        }
    }

    /** Names its topic, for the sink pools transactional ids by it. */
    private static final class SamePartition
            implements KafkaRecordSerializationSchema<ConsumerRecord<byte[], byte[]>>, KafkaDatasetFacetProvider {
        private static final long serialVersionUID = 1;
        private final String topic;

        SamePartition(String topic) {
            this.topic = topic;
        }

        @Override
        public ProducerRecord<byte[], byte[]> serialize(
                ConsumerRecord<byte[], byte[]> r, KafkaSinkContext context, Long timestamp) {
            return new ProducerRecord<>(topic, r.partition(), r.timestamp(), r.key(), r.value(), r.headers());
        }

        @Override
        public Optional<KafkaDatasetFacet> getKafkaDatasetFacet() {
            return Optional.of(
                    new DefaultKafkaDatasetFacet(DefaultKafkaDatasetIdentifier.ofTopics(List.of(topic))));
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

    /** In milliseconds. */
    private static long interval() {
        return Long.parseLong(choice("PEER_INTERVAL_MS", "100"));
    }

    /** Adds key=value,key=value from the environment. */
    private static void further(Properties p, String name) {
        for (String pair : choice(name, "").split(",")) {
            int at = pair.indexOf('=');
            if (at > 0) {
                p.put(pair.substring(0, at), pair.substring(at + 1));
            }
        }
    }

    /** The newest checkpoint or savepoint that is whole: its metadata gets its name at the very end. */
    private static Optional<Path> newest(Path checkpoints) throws IOException {
        try (Stream<Path> files = Files.walk(checkpoints, 3)) {
            return files.filter(f -> f.getFileName().toString().equals("_metadata"))
                    .max(Comparator.comparingLong(f -> f.toFile().lastModified()))
                    .map(Path::getParent);
        }
    }

    private static Configuration settings(Path checkpoints) throws IOException {
        Properties p = new Properties();
        p.put("execution.checkpointing.interval", interval() + " ms");
        p.put("execution.checkpointing.mode", "EXACTLY_ONCE");
        p.put("execution.checkpointing.storage", "filesystem");
        p.put("execution.checkpointing.dir", checkpoints.toUri().toString());
        p.put("execution.checkpointing.externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION");
        p.put("execution.checkpointing.num-retained", "2");
        // A checkpoint that was resumed from is deleted like one's own, once there are newer ones.
        p.put("execution.state-recovery.claim-mode", "CLAIM");
        p.put("pipeline.object-reuse", "true");
        // Chained operators exchange nothing over the network.
        p.put("taskmanager.memory.network.min", "64mb");
        p.put("taskmanager.memory.network.max", "64mb");
        newest(checkpoints).ifPresent(c -> p.put("execution.state-recovery.path", c.toUri().toString()));
        further(p, "PEER_FLINK");
        Configuration configuration = new Configuration();
        p.forEach((key, value) -> configuration.setString((String) key, (String) value));
        return configuration;
    }

    private static KafkaSource<ConsumerRecord<byte[], byte[]>> source() {
        Properties p = new Properties();
        p.put("isolation.level", "read_committed");
        p.put("max.poll.records", "5000");
        p.put("max.partition.fetch.bytes", "4194304");
        further(p, "PEER_CONSUMER");
        return KafkaSource.<ConsumerRecord<byte[], byte[]>>builder()
                .setBootstrapServers(need("PEER_BOOTSTRAP"))
                .setGroupId(need("PEER_GROUP"))
                .setTopics(need("PEER_INPUT"))
                .setStartingOffsets(OffsetsInitializer.committedOffsets(OffsetResetStrategy.EARLIEST))
                .setProperties(p)
                .setDeserializer(new AsRead())
                .build();
    }

    private static KafkaSink<ConsumerRecord<byte[], byte[]>> sink() {
        Properties p = new Properties();
        p.put("batch.size", "262144");
        p.put("buffer.memory", "134217728");
        // Nothing is seen before the commit, which flushes: to wait half an interval for fuller batches delays nothing.
        p.put("linger.ms", choice("PEER_LINGER_MS", Long.toString(interval() / 2)));
        p.put("compression.type", choice("PEER_COMPRESSION", "none"));
        // Longer than a restart may take: what a checkpoint holds must still be committable. The broker allows 15 min.
        p.put("transaction.timeout.ms", "600000");
        further(p, "PEER_PRODUCER");
        return KafkaSink.<ConsumerRecord<byte[], byte[]>>builder()
                .setBootstrapServers(need("PEER_BOOTSTRAP"))
                .setKafkaProducerConfig(p)
                .setRecordSerializer(new SamePartition(need("PEER_OUTPUT")))
                .setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
                .setTransactionalIdPrefix(need("PEER_GROUP"))
                .setTransactionNamingStrategy(
                        TransactionNamingStrategy.valueOf(choice("PEER_NAMING", "INCREMENTING")))
                .build();
    }

    public static void main(String[] args) throws Exception {
        Path checkpoints = Files.createDirectories(Path.of(need("PEER_STATE")).toAbsolutePath().resolve("checkpoints"));
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment(settings(checkpoints));
        env.setParallelism(Integer.parseInt(choice("PEER_THREADS", "1")));
        env.fromSource(source(), WatermarkStrategy.noWatermarks(), "in").uid("in").sinkTo(sink()).uid("out");
        // Asked for before the job runs: a signal may come at any time.
        CompletableFuture<Void> asked = new CompletableFuture<>();
        Signal.handle(new Signal("TERM"), s -> asked.complete(null));
        JobClient job = env.executeAsync("copy");
        CompletableFuture<?> ended = job.getJobExecutionResult();
        int status = 1;
        try {
            CompletableFuture.anyOf(asked, ended).get();
            String savepoint = checkpoints.resolve("stopped").toUri().toString();
            job.stopWithSavepoint(false, savepoint, SavepointFormatType.CANONICAL).get(25, TimeUnit.SECONDS);
            status = 0;
        } catch (ExecutionException e) {
            e.printStackTrace();
        }
        Runtime.getRuntime().halt(status);
    }
}
