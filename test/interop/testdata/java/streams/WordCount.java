import java.util.List;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Materialized;

/** Counts the words of the lines in topic lines, exactly once. The counts are in topic counts. */
public class WordCount {
    public static void main(String[] args) throws Exception {
        var settings = new Properties();
        settings.put("application.id", "word-count");
        settings.put("bootstrap.servers", System.getenv("BROKER"));
        settings.put("security.protocol", "SASL_PLAINTEXT");
        settings.put("sasl.mechanism", "SCRAM-SHA-512");
        settings.put("sasl.jaas.config", "org.apache.kafka.common.security.scram.ScramLoginModule required"
            + " username=\"seb\" password=\"" + System.getenv("KEY") + "\";");
        settings.put("processing.guarantee", "exactly_once_v2");
        settings.put("commit.interval.ms", "1000"); // a transaction a second and thread
        settings.put("state.dir", args[0]);
        settings.put("consumer.auto.offset.reset", "earliest");
        settings.put("consumer.session.timeout.ms", "6000"); // until others do the work of an instance that died
        settings.put("consumer.heartbeat.interval.ms", "2000");
        settings.put("default.key.serde", Serdes.StringSerde.class.getName());
        settings.put("default.value.serde", Serdes.StringSerde.class.getName());

        var builder = new StreamsBuilder();
        builder.<String, String>stream("lines")
            .flatMapValues(line -> List.of(line.split(" ")))
            .groupBy((key, word) -> word)
            .count(Materialized.as("counted"))
            .toStream()
            .mapValues(count -> Long.toString(count))
            .to("counts");

        var streams = new KafkaStreams(builder.build(), settings);
        streams.setUncaughtExceptionHandler(failure -> {
            failure.printStackTrace();
            return StreamThreadExceptionResponse.REPLACE_THREAD; // goes on after the last commit
        });
        streams.start();
        Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
        Thread.currentThread().join();
    }
}
