package io.headgate.clients;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import redis.clients.jedis.AbstractTransaction;
import redis.clients.jedis.JedisPubSub;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.ScanIteration;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.exceptions.JedisException;
import redis.clients.jedis.params.IncrexParams;

/** What Jedis offers of its own. */
class JedisTest {

    @ParameterizedTest
    @ValueSource(ints = {2, 3})
    void transaction(int protocol) {
        try (RedisClient client = JedisAdapter.open(Endpoint.plain(), protocol)) {
            String key = Endpoint.newKey();
            String[] charge = {key, "4", "5", "3600"};
            try (AbstractTransaction multi = client.multi()) {
                multi.sendCommand(JedisAdapter.command("CL.THROTTLE"), charge);
                multi.increx(key);
                multi.sendCommand(JedisAdapter.command("CL.THROTTLE"), charge);
                List<Object> replies = multi.exec();
                assertEquals(List.of(0L, 5L, 4L, -1L, 720L), replies.get(0));
                assertTrue(assertInstanceOf(JedisDataException.class, replies.get(1)).getMessage().startsWith("WRONGTYPE"));
                assertEquals(List.of(0L, 5L, 3L, -1L, 1440L), replies.get(2));
            }
            try (AbstractTransaction multi = client.transaction(false)) {
                multi.watch(key);
                client.sendCommand(JedisAdapter.command("CL.THROTTLE"), charge); // on another connection
                multi.multi();
                multi.sendCommand(JedisAdapter.command("CL.THROTTLE"), charge);
                assertNull(multi.exec(), "the watched key has changed");
            }
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {2, 3})
    void publishAndSubscribe(int protocol) throws Exception {
        try (RedisClient client = JedisAdapter.open(Endpoint.plain(), protocol)) {
            String channel = Endpoint.newKey();
            CompletableFuture<Void> subscribed = new CompletableFuture<>();
            CompletableFuture<String> heard = new CompletableFuture<>();
            JedisPubSub listener = new JedisPubSub() {
                @Override
                public void onSubscribe(String name, int count) {
                    subscribed.complete(null);
                }

                @Override
                public void onMessage(String name, String message) {
                    heard.complete(name + " " + message);
                    unsubscribe();
                }
            };
            Thread thread = new Thread(() -> client.subscribe(listener, channel));
            thread.start();
            subscribed.get(10, TimeUnit.SECONDS);
            assertEquals(1, client.publish(channel, "hello"));
            assertEquals(channel + " hello", heard.get(10, TimeUnit.SECONDS));
            thread.join(10_000);
            assertTrue(!thread.isAlive(), "unsubscribing ends the listener");
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {2, 3})
    void scanIteration(int protocol) {
        try (RedisClient client = JedisAdapter.open(Endpoint.plain(), protocol)) {
            String prefix = Endpoint.newKey();
            Set<String> want = new TreeSet<>();
            for (int i = 0; i < 500; i++) {
                want.add(prefix + ":" + i);
                client.sendCommand(JedisAdapter.command("RL.LIMIT"), prefix + ":" + i, "10", "1d");
            }
            Set<String> got = new TreeSet<>();
            for (ScanIteration scan = client.scanIteration(50, prefix + ":*"); !scan.isIterationCompleted(); ) {
                got.addAll(scan.nextBatch().getResult());
            }
            assertEquals(want, got);
            assertEquals(500, client.del(want.toArray(String[]::new)));
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {2, 3})
    void commandsOfItsOwn(int protocol) {
        try (RedisClient client = JedisAdapter.open(Endpoint.plain(), protocol)) {
            String key = Endpoint.newKey();
            IncrexParams bounded = IncrexParams.increxParams().ubound(5).ex(60).enx();
            assertEquals(List.of(3L, 3L), client.increx(key, 3, bounded));
            assertEquals(List.of(3L, 0L), client.increx(key, 3, bounded));
            assertEquals(
                    List.of(0.5, 0.5),
                    client.increx(Endpoint.newKey(), 0.5, new redis.clients.jedis.params.IncrexFloatParams().ubound(1)));
            assertTrue(client.exists(key));
            assertEquals("string", client.type(key));
            assertEquals(60, client.ttl(key), 2.0);
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {2, 3})
    void wrongPassword(int protocol) {
        JedisException error = assertThrows(JedisException.class, () -> {
            try (RedisClient client = JedisAdapter.open(Endpoint.auth().withPassword("wrong"), protocol)) {
                client.ping();
            }
        });
        String text = error.getMessage() + error.getCause();
        assertTrue(text.contains("WRONGPASS"), text);
    }
}
