import java.net.URI;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Supplier;
import software.amazon.awssdk.core.SdkBytes;
import software.amazon.awssdk.core.exception.SdkClientException;
import software.amazon.awssdk.core.exception.SdkServiceException;
import software.amazon.awssdk.http.urlconnection.UrlConnectionHttpClient;
import software.amazon.awssdk.services.sqs.SqsClient;
import software.amazon.awssdk.services.sqs.model.*;

/** Sends and receives messages with the AWS SDK for Java 2 beside a broker that is killed. */
public class Sqs {
    static final int NUMBERS = Integer.parseInt(System.getenv("NUMBERS"));
    static final SqsClient sqs = SqsClient.builder()
        .endpointOverride(URI.create(System.getenv("ENDPOINT"))).httpClientBuilder(UrlConnectionHttpClient.builder()).build();
    static final Set<String> done = ConcurrentHashMap.newKeySet();

    static <T> T again(Supplier<T> call) {
        for (;;) {
            try {
                return call.get();
            } catch (SdkServiceException e) {
                if (e.statusCode() < 500) throw e;
            } catch (SdkClientException e) {
                // The broker is gone.
            }
            try {
                Thread.sleep(100);
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
        }
    }

    static synchronized void say(Object... words) {
        System.out.println(String.join(" ", java.util.Arrays.stream(words).map(String::valueOf).toList()));
    }

    static void check(boolean ok, Object what) {
        if (!ok) throw new AssertionError(what);
    }

    static Message one(String url) {
        return sqs.receiveMessage(r -> r.queueUrl(url).waitTimeSeconds(5).messageAttributeNames("All")
            .messageSystemAttributeNames(MessageSystemAttributeName.ALL)).messages().get(0);
    }

    static String tour(String name) {
        String fifo = sqs.createQueue(r -> r.queueName(name + ".fifo").attributes(Map.of(
            QueueAttributeName.FIFO_QUEUE, "true", QueueAttributeName.CONTENT_BASED_DEDUPLICATION, "true"))).queueUrl();
        for (String body : List.of("1", "1", "2")) sqs.sendMessage(r -> r.queueUrl(fifo).messageBody(body).messageGroupId("g"));
        for (String body : List.of("1", "2")) {
            Message m = one(fifo);
            check(m.body().equals(body) && "g".equals(m.attributes().get(MessageSystemAttributeName.MESSAGE_GROUP_ID)), m);
            sqs.deleteMessage(r -> r.queueUrl(fifo).receiptHandle(m.receiptHandle()));
        }
        String url = sqs.createQueue(r -> r.queueName(name).attributes(Map.of(QueueAttributeName.VISIBILITY_TIMEOUT, "30"))).queueUrl();
        Map<String, MessageAttributeValue> attributes = Map.of(
            "n", MessageAttributeValue.builder().dataType("Number.int").stringValue("7").build(),
            "b", MessageAttributeValue.builder().dataType("Binary").binaryValue(SdkBytes.fromByteArray(new byte[] {0, -1})).build());
        sqs.sendMessage(r -> r.queueUrl(url).messageBody("<ü>").messageAttributes(attributes));
        Message m = one(url);
        check(m.body().equals("<ü>") && m.messageAttributes().equals(attributes), m);
        sqs.changeMessageVisibility(r -> r.queueUrl(url).receiptHandle(m.receiptHandle()).visibilityTimeout(0));
        Message second = one(url);
        check("2".equals(second.attributes().get(MessageSystemAttributeName.APPROXIMATE_RECEIVE_COUNT)), second);
        sqs.deleteMessageBatch(r -> r.queueUrl(url).entries(e -> e.id("a").receiptHandle(second.receiptHandle())));
        sqs.setQueueAttributes(r -> r.queueUrl(url).attributes(Map.of(QueueAttributeName.VISIBILITY_TIMEOUT, "5")));
        try {
            sqs.getQueueUrl(r -> r.queueName("missing"));
            throw new AssertionError("a queue that does not exist has a URL");
        } catch (QueueDoesNotExistException e) {
            check(e.awsErrorDetails().errorCode().endsWith("QueueDoesNotExist") || e.awsErrorDetails().errorCode().endsWith("NonExistentQueue"), e);
        }
        say("tour");
        return url;
    }

    static void send(String url) {
        for (int first = 0; first < NUMBERS; first += 10) {
            List<SendMessageBatchRequestEntry> entries = new ArrayList<>();
            for (int n = first; n < first + 10; n++) {
                entries.add(SendMessageBatchRequestEntry.builder().id("" + n).messageBody("" + n).build());
            }
            for (var m : again(() -> sqs.sendMessageBatch(r -> r.queueUrl(url).entries(entries))).successful()) say("sent", m.id(), m.messageId());
        }
    }

    static void receive(String url, int name) {
        while (done.size() < NUMBERS) {
            say("ask", name);
            for (Message m : again(() -> sqs.receiveMessage(r -> r.queueUrl(url).maxNumberOfMessages(10).waitTimeSeconds(1))).messages()) {
                say("got", m.body(), m.messageId(), name);
                again(() -> sqs.deleteMessage(r -> r.queueUrl(url).receiptHandle(m.receiptHandle())));
                say("done", m.body(), m.messageId());
                done.add(m.body());
            }
        }
    }

    public static void main(String[] args) throws Exception {
        String url = tour(System.getenv("QUEUE"));
        List<Thread> all = new ArrayList<>(List.of(new Thread(() -> send(url))));
        for (int i = 0; i < 3; i++) {
            int name = i;
            all.add(new Thread(() -> receive(url, name)));
        }
        for (Thread t : all) t.start();
        for (Thread t : all) t.join();
    }
}
