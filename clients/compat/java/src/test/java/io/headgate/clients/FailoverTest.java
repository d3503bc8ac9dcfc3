package io.headgate.clients;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assertions.fail;

import io.lettuce.core.AbstractRedisClient;
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
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.BooleanSupplier;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.TestInstance;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import redis.clients.jedis.ConnectionPoolConfig;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.UnifiedJedis;
import redis.clients.jedis.providers.PooledConnectionProvider;
import redis.clients.jedis.providers.SentineledConnectionProvider;

/**
 * Clients of Redis Cluster and of Sentinel, and plain clients at a load balancer, when the leader is killed under their load. They
 * start with the nodes' addresses for plain clients.
 */
class FailoverTest {

    private static final long LIMIT = 1_000_000;
    private static final int DECISIONS = 20; // of each key, before the kill, and after it
    private static final Duration PATIENCE = Duration.ofSeconds(20); // without a decision
    private static final Duration TIMEOUT = Duration.ofSeconds(2);
    private static final long MAX_UNACKED = 250; // ms, the default of max-unacked

    /** Hash tags of keys, one for each group of a cluster of twelve. */
    private static final List<String> TAGS = List.of("10 11 12 13 20 21 22 23 40 41 42 43".split(" "));

    /** Runs a command whose first argument is a key; its reply is an array of integers. */
    interface Call {
        List<?> run(String... command);
    }

    /** A client of a cluster. */
    record Client(Call call, AutoCloseable connection) implements AutoCloseable {
        @Override
        public void close() throws Exception {
            connection.close();
        }
    }

    /** The ways in which the libraries reach a cluster, with their own retries or with none. */
    enum Way {
        JEDIS_CLUSTER {
            @Override
            Client connect(Cluster cluster, Endpoint balancer, boolean retries) {
                return jedis(redis.clients.jedis.RedisClusterClient.builder()
                        .nodes(addresses(cluster))
                        .clientConfig(config())
                        .poolConfig(pool())
                        .maxAttempts(retries ? ATTEMPTS : 2) // the second follows MOVED
                        .maxTotalRetriesDuration(ATTEMPT_FOR)
                        .build());
            }
        },
        JEDIS_SENTINEL {
            @Override
            Client connect(Cluster cluster, Endpoint balancer, boolean retries) {
                return jedis(new UnifiedJedis(
                        new SentineledConnectionProvider("headgate", config(), pool(), addresses(cluster), config()),
                        retries ? ATTEMPTS : 1,
                        ATTEMPT_FOR));
            }
        },
        JEDIS_PLAIN {
            @Override
            Client connect(Cluster cluster, Endpoint balancer, boolean retries) {
                return jedis(new UnifiedJedis(
                        new PooledConnectionProvider(new HostAndPort(balancer.host(), balancer.port()), config()),
                        retries ? ATTEMPTS : 1,
                        ATTEMPT_FOR));
            }
        },
        LETTUCE_CLUSTER {
            @Override
            Client connect(Cluster cluster, Endpoint balancer, boolean retries) {
                RedisClusterClient client = RedisClusterClient.create(
                        cluster.nodes.stream().map(Way::uri).toList());
                client.setOptions(ClusterClientOptions.builder(options(retries))
                        .topologyRefreshOptions(ClusterTopologyRefreshOptions.builder()
                                .enablePeriodicRefresh(Duration.ofMillis(500))
                                .enableAllAdaptiveRefreshTriggers()
                                .build())
                        .build());
                var connection = client.connect();
                return new Client(
                        command -> connection.sync().dispatch(keyword(command[0]), new ArrayOutput<>(StringCodec.UTF8), arguments(command)),
                        () -> close(connection, client));
            }
        },
        LETTUCE_SENTINEL {
            @Override
            Client connect(Cluster cluster, Endpoint balancer, boolean retries) {
                RedisURI.Builder uri = RedisURI.builder().withSentinelMasterId("headgate").withTimeout(TIMEOUT);
                cluster.nodes.forEach(at -> uri.withSentinel(at.host(), at.port()));
                return lettuce(uri.build(), retries);
            }
        },
        LETTUCE_PLAIN {
            @Override
            Client connect(Cluster cluster, Endpoint balancer, boolean retries) {
                return lettuce(uri(balancer), retries);
            }
        };

        /** Attempts of Jedis that outlast an election, within some seconds. */
        private static final int ATTEMPTS = 30;

        private static final Duration ATTEMPT_FOR = Duration.ofSeconds(30);

        abstract Client connect(Cluster cluster, Endpoint balancer, boolean retries);

        /** Reports whether the library may repeat a call once by itself, without its retries, and so count it twice. */
        boolean repeats() {
            return this == JEDIS_CLUSTER;
        }

        /**
         * Returns how many calls may fail with the library's retries: those that were under way. Lettuce keeps them for the dead node
         * (https://github.com/redis/lettuce/issues/984), or fails the first of them with the error of the connection
         * (https://github.com/redis/lettuce/issues/140). Jedis with sentinels closes its pool when the master changes, and does not
         * repeat a call that meets the closed pool.
         */
        int mayFail() {
            return this == JEDIS_CLUSTER || this == JEDIS_PLAIN ? 0 : TAGS.size();
        }

        private static Set<HostAndPort> addresses(Cluster cluster) {
            return cluster.nodes.stream().map(at -> new HostAndPort(at.host(), at.port())).collect(Collectors.toSet());
        }

        private static DefaultJedisClientConfig config() {
            return DefaultJedisClientConfig.builder().protocol(RedisProtocol.RESP2).timeoutMillis((int) TIMEOUT.toMillis()).build();
        }

        /** A connection for each caller. Jedis closes the pool of a dead node, and callers that wait for a connection fail. */
        private static ConnectionPoolConfig pool() {
            ConnectionPoolConfig pool = new ConnectionPoolConfig();
            pool.setMaxTotal(TAGS.size());
            return pool;
        }

        private static Client jedis(UnifiedJedis client) {
            return new Client(
                    command -> (List<?>) client.sendCommand(
                            command[1], JedisAdapter.command(command[0]), JedisAdapter.arguments(command)),
                    client);
        }

        private static RedisURI uri(Endpoint at) {
            return RedisURI.builder().withHost(at.host()).withPort(at.port()).withTimeout(TIMEOUT).build();
        }

        /** By default, Lettuce keeps commands while it has no connection, and repeats those that were not answered. */
        private static ClientOptions options(boolean retries) {
            ClientOptions.Builder options = ClientOptions.builder()
                    .protocolVersion(ProtocolVersion.RESP2)
                    .timeoutOptions(TimeoutOptions.enabled());
            if (!retries) {
                options.disconnectedBehavior(ClientOptions.DisconnectedBehavior.REJECT_COMMANDS);
            }
            return options.build();
        }

        private static Client lettuce(RedisURI uri, boolean retries) {
            RedisClient client = RedisClient.create(uri);
            client.setOptions(options(retries));
            var connection = client.connect();
            return new Client(
                    command -> connection.sync().dispatch(keyword(command[0]), new ArrayOutput<>(StringCodec.UTF8), arguments(command)),
                    () -> close(connection, client));
        }

        private static void close(AutoCloseable connection, AbstractRedisClient client) throws Exception {
            connection.close();
            client.shutdown(Duration.ZERO, TIMEOUT);
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
    }

    /** Nothing is decided without a leader: whoever gets a decision of a group after the kill has found its new leader. */
    @Nested
    @TestInstance(TestInstance.Lifecycle.PER_CLASS)
    class WithoutRetries {
        private Cluster cluster;
        private Endpoint balancer;

        @BeforeAll
        void start() {
            cluster = new Cluster("--durability", "sync");
            balancer = cluster.balance();
        }

        @AfterAll
        void stop() {
            cluster.close();
        }

        @ParameterizedTest
        @EnumSource
        void leaderKilledUnderLoad(Way way) throws Exception {
            try (Client client = way.connect(cluster, balancer, false); Load load = new Load(client.call())) {
                load.reach(DECISIONS);
                Endpoint killed = cluster.killLeader();
                load.reach(2 + DECISIONS); // of two, one may have been under way and one be lost
                load.close();

                assertNotEquals(killed, cluster.leader());
                assertTrue(load.failed() > 0 || way.repeats(), "a call met the dead leader");
                for (Key key : load.keys) {
                    long used = load.used(key);
                    long admitted = key.admitted.get();
                    long failed = key.failed.get();
                    String counts = key.name + ": " + admitted + " admitted, " + failed + " failed, " + used + " used";
                    assertTrue(admitted <= used, "a decision was forgotten: " + counts);
                    assertTrue(used <= admitted + failed + (way.repeats() ? 1 + failed : 0), "a call was counted twice: " + counts);
                }
            }
            cluster.restart();
        }
    }

    /** With the default failure policy, and the libraries' own retries, callers see no error, or few. */
    @Nested
    @TestInstance(TestInstance.Lifecycle.PER_CLASS)
    @EnabledIfEnvironmentVariable(named = "HGTEST_GROUPS", matches = ".+")
    class WithRetries {
        private Cluster cluster;
        private Endpoint balancer;

        @BeforeAll
        void start() {
            cluster = new Cluster("--on-failure", "default");
            balancer = cluster.balance();
        }

        @AfterAll
        void stop() {
            cluster.close();
        }

        @ParameterizedTest
        @EnumSource
        void noErrorWhenLeaderKilled(Way way) throws Exception {
            long degraded = cluster.degraded();
            try (Client client = way.connect(cluster, balancer, true); Load load = new Load(client.call())) {
                load.reach(DECISIONS);
                long before = load.admitted();
                Thread.sleep(MAX_UNACKED);
                cluster.killLeader();
                long lost = load.admitted() - before; // at most: what was admitted during max-unacked
                cluster.leader();
                load.reach(DECISIONS);
                cluster.restart();
                load.reach(DECISIONS);
                load.close();

                System.out.printf(
                        "%s: %d calls, the longest took %d ms, %d failed%n", way, load.admitted(), load.longest.get(), load.failed());
                assertTrue(load.failed() <= way.mayFail(), () -> "calls failed, the last: " + load.last);
                // Each key may have had a call under way that the client repeated, and one that the dead node decided by its
                // failure policy.
                long twice = cluster.degraded() - degraded + 2 * TAGS.size() + load.failed();
                await(
                        () -> {
                            long used = load.keys.stream().mapToLong(load::used).sum();
                            load.last = used + " used of " + load.admitted() + ", " + lost + " may be lost, " + twice + " counted twice";
                            return load.admitted() - lost <= used && used <= load.admitted() + twice;
                        },
                        load);
            }
        }
    }

    /** What is told of a key. */
    private static final class Key {
        final String name;
        final AtomicLong admitted = new AtomicLong();
        final AtomicLong failed = new AtomicLong();
        long goal; // of reach

        Key(String name) {
            this.name = name;
        }
    }

    /** Charges a key of each group until it is closed, and counts what it is told. */
    private static final class Load implements AutoCloseable {
        final Call call;
        final List<Key> keys = new ArrayList<>();
        final AtomicLong longest = new AtomicLong(); // ms that a call took
        volatile String last; // what went wrong
        private volatile boolean stopped;
        private final List<Thread> threads = new ArrayList<>();

        Load(Call call) {
            this.call = call;
            String prefix = Endpoint.newKey();
            for (String tag : TAGS) {
                Key key = new Key(prefix + "{" + tag + "}");
                keys.add(key);
                Thread thread = new Thread(() -> run(key));
                threads.add(thread);
                thread.start();
            }
        }

        private List<?> charge(Key key, String... more) {
            Stream<String> charge =
                    Stream.of("RL.LIMIT", key.name, Long.toString(LIMIT), "1d", "ALGORITHM", "fixed", "ALIGN", "first");
            return call.run(Stream.concat(charge, Arrays.stream(more)).toArray(String[]::new));
        }

        private void run(Key key) {
            try {
                while (!stopped) {
                    long began = System.nanoTime();
                    try {
                        assertEquals(1L, charge(key).get(0));
                        key.admitted.incrementAndGet();
                    } catch (RuntimeException e) {
                        key.failed.incrementAndGet();
                        last = key.name + ": " + e + ", because of " + e.getCause();
                        Thread.sleep(10);
                    }
                    longest.accumulateAndGet(Duration.ofNanos(System.nanoTime() - began).toMillis(), Math::max);
                    Thread.sleep(5); // leaves processors to the nodes
                }
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }

        long admitted() {
            return keys.stream().mapToLong(key -> key.admitted.get()).sum();
        }

        long failed() {
            return keys.stream().mapToLong(key -> key.failed.get()).sum();
        }

        /** Waits until so many more calls of each key have been admitted. */
        void reach(int more) throws InterruptedException {
            for (Key key : keys) {
                key.goal = key.admitted.get() + more;
            }
            for (Key key : keys) {
                await(() -> key.admitted.get() >= key.goal, this);
            }
        }

        /** What the leader has charged to a key, or less than nothing if there is no leader. PEEK would count the call itself. */
        long used(Key key) {
            try {
                return LIMIT - (Long) charge(key, "COST", "0", "FAIL", "CLOSED").get(2);
            } catch (RuntimeException e) {
                return -LIMIT;
            }
        }

        @Override
        public void close() throws InterruptedException {
            stopped = true;
            for (Thread thread : threads) {
                thread.join(2 * PATIENCE.toMillis());
            }
        }
    }

    private static void await(BooleanSupplier done, Load load) throws InterruptedException {
        long deadline = System.nanoTime() + 2 * PATIENCE.toNanos();
        while (!done.getAsBoolean()) {
            if (System.nanoTime() > deadline) {
                fail("not in time: " + load.last);
            }
            Thread.sleep(5);
        }
    }
}
