import java.io.FileInputStream;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Materialized;

/** Counts the words of topic words in topic counts: with a repartition topic, and a store that is restored from its log. */
public class Count {
    public static void main(String[] args) throws Exception {
        var settings = new Properties();
        try (var file = new FileInputStream(args[0])) {
            settings.load(file);
        }
        settings.put("application.id", "count");
        settings.put("state.dir", args[1]);
        settings.put("commit.interval.ms", "200");
        settings.put("auto.offset.reset", "earliest");
        settings.put("default.key.serde", Serdes.StringSerde.class.getName());
        settings.put("default.value.serde", Serdes.StringSerde.class.getName());

        var builder = new StreamsBuilder();
        builder.<String, String>stream("words")
            .groupBy((key, word) -> word)
            .count(Materialized.as("counted"))
            .toStream()
            .mapValues(count -> Long.toString(count))
            .to("counts");

        var failed = new CountDownLatch(1);
        var streams = new KafkaStreams(builder.build(), settings);
        streams.setUncaughtExceptionHandler(failure -> {
            failure.printStackTrace();
            failed.countDown();
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.start();
        failed.await();
        System.exit(1);
    }
}
