package io.headgate.clients;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assertions.fail;

import io.lettuce.core.ClientOptions;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.TimeoutOptions;
import io.lettuce.core.cluster.ClusterClientOptions;
import io.lettuce.core.cluster.ClusterTopologyRefreshOptions;
import io.lettuce.core.cluster.RedisClusterClient;
import io.lettuce.core.codec.StringCodec;
import io.lettuce.core.output.ArrayOutput;
import io.lettuce.core.protocol.CommandArgs;
import io.lettuce.core.protocol.ProtocolKeyword;
import io.lettuce.core.protocol.ProtocolVersion;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.BooleanSupplier;
import java.util.stream.Collectors;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.RedisSentinelClient;
import redis.clients.jedis.UnifiedJedis;

/**
 * Clients of Redis Cluster and of Sentinel when the leader is killed under their load. They start with the nodes' addresses for
 * plain clients. Nothing is decided without a leader: whoever gets a decision after the kill has found the new one.
 */
class FailoverTest {

    private static final long LIMIT = 1_000_000;
    private static final int DECISIONS = 50; // before the kill, and after it
    private static final Duration PATIENCE = Duration.ofSeconds(20); // without a decision
    private static final Duration TIMEOUT = Duration.ofSeconds(2);

    private static Cluster cluster;

    @BeforeAll
    static void start() {
        cluster = new Cluster("--durability", "sync");
    }

    @AfterAll
    static void stop() {
        cluster.close();
    }

    /** Runs a command whose first argument is a key; its reply is an array of integers. */
    interface Call {
        List<?> run(String... command);
    }

    private static Set<HostAndPort> addresses() {
        return cluster.nodes.stream().map(at -> new HostAndPort(at.host(), at.port())).collect(Collectors.toSet());
    }

    private static DefaultJedisClientConfig config() {
        return DefaultJedisClientConfig.builder().protocol(RedisProtocol.RESP2).timeoutMillis((int) TIMEOUT.toMillis()).build();
    }

    private static Call jedis(UnifiedJedis client) {
        return command -> (List<?>) client.sendCommand(
                command[1], JedisAdapter.command(command[0]), JedisAdapter.arguments(command));
    }

    @Test
    void jedisCluster() throws Exception {
        try (redis.clients.jedis.RedisClusterClient client = redis.clients.jedis.RedisClusterClient.builder()
                .nodes(addresses())
                .clientConfig(config())
                .maxAttempts(2) // the second follows MOVED
                .build()) {
            leaderKilledUnderLoad(jedis(client), true);
        }
    }

    @Test
    void jedisSentinel() throws Exception {
        try (RedisSentinelClient client = RedisSentinelClient.builder()
                .masterName("headgate")
                .sentinels(addresses())
                .clientConfig(config())
                .sentinelClientConfig(config())
                .build()) {
            leaderKilledUnderLoad(command -> (List<?>) client.sendCommand(
                    JedisAdapter.command(command[0]), JedisAdapter.arguments(command)), false);
        }
    }

    private static ProtocolKeyword keyword(String name) {
        return () -> name.getBytes(StandardCharsets.UTF_8);
    }

    private static CommandArgs<String, String> arguments(String[] command) {
        CommandArgs<String, String> args = new CommandArgs<>(StringCodec.UTF8).addKey(command[1]);
        for (int i = 2; i < command.length; i++) {
            args.add(command[i]);
        }
        return args;
    }

    @Test
    void lettuceCluster() throws Exception {
        RedisClusterClient client = RedisClusterClient.create(cluster.nodes.stream()
                .map(at -> RedisURI.builder().withHost(at.host()).withPort(at.port()).withTimeout(TIMEOUT).build())
                .toList());
        client.setOptions(ClusterClientOptions.builder()
                .protocolVersion(ProtocolVersion.RESP2)
                .disconnectedBehavior(ClientOptions.DisconnectedBehavior.REJECT_COMMANDS)
                .timeoutOptions(TimeoutOptions.enabled())
                .topologyRefreshOptions(ClusterTopologyRefreshOptions.builder()
                        .enablePeriodicRefresh(Duration.ofMillis(500))
                        .enableAllAdaptiveRefreshTriggers()
                        .build())
                .build());
        try (var connection = client.connect()) {
            leaderKilledUnderLoad(command -> connection.sync().dispatch(
                    keyword(command[0]), new ArrayOutput<>(StringCodec.UTF8), arguments(command)), false);
        } finally {
            client.shutdown(Duration.ZERO, TIMEOUT);
        }
    }

    @Test
    void lettuceSentinel() throws Exception {
        RedisURI.Builder uri = RedisURI.builder().withSentinelMasterId("headgate").withTimeout(TIMEOUT);
        cluster.nodes.forEach(at -> uri.withSentinel(at.host(), at.port()));
        RedisClient client = RedisClient.create(uri.build());
        client.setOptions(ClientOptions.builder()
                .protocolVersion(ProtocolVersion.RESP2)
                .disconnectedBehavior(ClientOptions.DisconnectedBehavior.REJECT_COMMANDS)
                .timeoutOptions(TimeoutOptions.enabled())
                .build());
        try (var connection = client.connect()) {
            leaderKilledUnderLoad(command -> connection.sync().dispatch(
                    keyword(command[0]), new ArrayOutput<>(StringCodec.UTF8), arguments(command)), false);
        } finally {
            client.shutdown(Duration.ZERO, TIMEOUT);
        }
    }

    private static void await(BooleanSupplier done, AtomicReference<Exception> last) throws InterruptedException {
        long deadline = System.nanoTime() + PATIENCE.toNanos();
        while (!done.getAsBoolean()) {
            if (System.nanoTime() > deadline) {
                fail("no decision", last.get());
            }
            Thread.sleep(5);
        }
    }

    /** retries tells that the library may repeat a call once by itself, and so count it twice. */
    private static void leaderKilledUnderLoad(Call client, boolean retries) throws Exception {
        String key = Endpoint.newKey();
        String[] charge = {"RL.LIMIT", key, Long.toString(LIMIT), "1d", "ALGORITHM", "fixed", "ALIGN", "first"};
        AtomicLong admitted = new AtomicLong();
        AtomicLong failed = new AtomicLong();
        AtomicReference<Exception> last = new AtomicReference<>();
        AtomicBoolean stopped = new AtomicBoolean();
        Thread load = new Thread(() -> {
            while (!stopped.get()) {
                try {
                    assertEquals(1L, client.run(charge).get(0));
                    admitted.incrementAndGet();
                } catch (RuntimeException e) {
                    last.set(e);
                    failed.incrementAndGet();
                    try {
                        Thread.sleep(10);
                    } catch (InterruptedException interrupted) {
                        return;
                    }
                }
            }
        });
        load.start();
        Endpoint killed;
        try {
            await(() -> admitted.get() >= DECISIONS, last);
            killed = cluster.killLeader();
            long before = admitted.get();
            // Of two, one may have been under way and one be lost.
            await(() -> admitted.get() >= before + 2 + DECISIONS, last);
        } finally {
            stopped.set(true);
            load.join(PATIENCE.toMillis());
        }
        assertNotEquals(killed, cluster.leader());
        assertTrue(failed.get() > 0 || retries, "a call met the dead leader");
        String[] peek = {"RL.LIMIT", key, Long.toString(LIMIT), "1d", "ALGORITHM", "fixed", "ALIGN", "first", "PEEK"};
        long used = LIMIT - (Long) client.run(peek).get(2);
        assertTrue(admitted.get() <= used, "a decision was forgotten: " + admitted + " admitted, " + used + " used");
        long most = admitted.get() + failed.get() + (retries ? 1 + failed.get() : 0);
        assertTrue(used <= most, "a call was counted twice: " + admitted + " admitted, " + failed + " failed, " + used + " used");
        cluster.restart();
    }
}
