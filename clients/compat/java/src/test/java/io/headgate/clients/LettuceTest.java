package io.headgate.clients;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.lettuce.core.IncrexArgs;
import io.lettuce.core.IncrexValue;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisCommandExecutionException;
import io.lettuce.core.RedisConnectionException;
import io.lettuce.core.ScanArgs;
import io.lettuce.core.ScanIterator;
import io.lettuce.core.TransactionResult;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.api.sync.RedisCommands;
import io.lettuce.core.pubsub.RedisPubSubAdapter;
import io.lettuce.core.pubsub.StatefulRedisPubSubConnection;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** What Lettuce offers of its own. */
class LettuceTest {

    private static void charge(RedisCommands<String, String> commands, String key) {
        String[] command = {"CL.THROTTLE", key, "4", "5", "3600"};
        commands.dispatch(LettuceAdapter.keyword(command[0]), new ReplyOutput(), LettuceAdapter.arguments(command));
    }

    @ParameterizedTest
    @ValueSource(ints = {2, 3})
    void transaction(int protocol) {
        try (LettuceAdapter client = new LettuceAdapter(Endpoint.plain(), protocol);
                StatefulRedisConnection<String, String> other = client.client.connect()) {
            String key = Endpoint.newKey();
            RedisCommands<String, String> commands = client.connection.sync();
            commands.multi();
            charge(commands, key);
            commands.increx(key);
            charge(commands, key);
            TransactionResult result = commands.exec();
            assertEquals(List.of(0L, 5L, 4L, -1L, 720L), result.<Object>get(0));
            Throwable failed = assertInstanceOf(RedisCommandExecutionException.class, result.get(1));
            assertTrue(failed.getMessage().startsWith("WRONGTYPE"));
            assertEquals(List.of(0L, 5L, 3L, -1L, 1440L), result.<Object>get(2));

            commands.watch(key);
            charge(other.sync(), key);
            commands.multi();
            charge(commands, key);
            assertTrue(commands.exec().wasDiscarded(), "the watched key has changed");
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {2, 3})
    void publishAndSubscribe(int protocol) throws Exception {
        try (LettuceAdapter client = new LettuceAdapter(Endpoint.plain(), protocol);
                StatefulRedisPubSubConnection<String, String> subscriber = client.client.connectPubSub()) {
            String channel = Endpoint.newKey();
            CompletableFuture<String> heard = new CompletableFuture<>();
            CompletableFuture<String> matched = new CompletableFuture<>();
            subscriber.addListener(new RedisPubSubAdapter<>() {
                @Override
                public void message(String name, String message) {
                    heard.complete(name + " " + message);
                }

                @Override
                public void message(String pattern, String name, String message) {
                    matched.complete(pattern + " " + name + " " + message);
                }
            });
            subscriber.sync().subscribe(channel);
            subscriber.sync().psubscribe(channel + ":*");
            assertEquals(1, client.connection.sync().publish(channel, "one"));
            assertEquals(1, client.connection.sync().publish(channel + ":x", "two"));
            assertEquals(channel + " one", heard.get(10, TimeUnit.SECONDS));
            assertEquals(channel + ":* " + channel + ":x two", matched.get(10, TimeUnit.SECONDS));
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {2, 3})
    void scanIterator(int protocol) {
        try (LettuceAdapter client = new LettuceAdapter(Endpoint.plain(), protocol)) {
            String prefix = Endpoint.newKey();
            Set<String> want = new TreeSet<>();
            for (int i = 0; i < 500; i++) {
                want.add(prefix + ":" + i);
                client.run("RL.LIMIT", prefix + ":" + i, "10", "1d");
            }
            RedisCommands<String, String> commands = client.connection.sync();
            Set<String> got = ScanIterator.scan(commands, ScanArgs.Builder.matches(prefix + ":*").limit(50)).stream()
                    .collect(Collectors.toCollection(TreeSet::new));
            assertEquals(want, got);
            assertEquals(500, commands.del(want.toArray(String[]::new)));
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {2, 3})
    void commandsOfItsOwn(int protocol) {
        try (LettuceAdapter client = new LettuceAdapter(Endpoint.plain(), protocol)) {
            RedisCommands<String, String> commands = client.connection.sync();
            String key = Endpoint.newKey();
            IncrexArgs bounded = IncrexArgs.Builder.ubound(5).ex(60).enx();
            assertEquals(new IncrexValue<>(3L, 3L), commands.increx(key, 3, bounded));
            assertEquals(new IncrexValue<>(3L, 0L), commands.increx(key, 3, bounded));
            assertEquals(
                    new IncrexValue<>(0.5, 0.5),
                    commands.increx(Endpoint.newKey(), 0.5, new io.lettuce.core.IncrexFloatArgs().ubound(1)));
            assertEquals(1, commands.exists(key));
            assertEquals("string", commands.type(key));
            assertEquals(60, commands.ttl(key), 2.0);
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {2, 3})
    void wrongPassword(int protocol) {
        RedisClient client = LettuceAdapter.open(Endpoint.auth().withPassword("wrong"), protocol);
        try {
            Throwable error = assertThrows(RedisConnectionException.class, client::connect);
            while (error.getCause() != null) {
                error = error.getCause();
            }
            assertTrue(error.getMessage().contains("WRONGPASS"), error.getMessage());
        } finally {
            client.shutdown();
        }
    }
}
