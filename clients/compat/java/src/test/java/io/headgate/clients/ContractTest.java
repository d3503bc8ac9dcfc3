package io.headgate.clients;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicContainer;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;

/** What an application gets through any library, in any protocol and over any transport. */
class ContractTest {

    private static final List<String> DECISION =
            List.of("allowed", "limit", "remaining", "retry_after_ms", "reset_after_ms", "delay_ms");
    private static final List<String> SLOTS =
            List.of("allowed", "limit", "remaining", "retry_after_ms", "id", "ttl_ms");

    private interface Library {
        Client open(Endpoint at, int protocol);
    }

    private interface Check {
        void run(Client client, int protocol) throws Exception;
    }

    private static final Map<String, Library> LIBRARIES = Map.of("Jedis", JedisAdapter::new, "Lettuce", LettuceAdapter::new);

    @TestFactory
    Stream<DynamicContainer> contract() {
        Map<String, Check> checks = new LinkedHashMap<>();
        checks.put("handshake", ContractTest::handshake);
        checks.put("CL.THROTTLE", ContractTest::clThrottle);
        checks.put("RL.LIMIT", ContractTest::limit);
        checks.put("RL.LIMIT with AND", ContractTest::chain);
        checks.put("GCRA", ContractTest::gcra);
        checks.put("INCREX", ContractTest::increx);
        checks.put("RL.ACQUIRE and RL.RELEASE", ContractTest::slots);
        checks.put("errors", ContractTest::errors);
        checks.put("keyspace", ContractTest::keyspace);
        checks.put("pipeline of 1000 in order", ContractTest::pipeline);
        checks.put("50 threads on one key", ContractTest::concurrency);
        List<DynamicContainer> containers = new ArrayList<>();
        LIBRARIES.forEach((name, library) -> {
            for (int protocol : new int[] {2, 3}) {
                List<DynamicTest> tests = new ArrayList<>();
                for (Endpoint at : List.of(Endpoint.plain(), Endpoint.auth(), Endpoint.tls())) {
                    checks.forEach((title, check) -> tests.add(DynamicTest.dynamicTest(at + ", " + title, () -> {
                        try (Client client = library.open(at, protocol)) {
                            check.run(client, protocol);
                        }
                    })));
                }
                tests.add(DynamicTest.dynamicTest("reconnect after a crash", () -> reconnect(library, protocol)));
                containers.add(DynamicContainer.dynamicContainer(name + " RESP" + protocol, tests));
            }
        });
        return containers.stream();
    }

    private static void handshake(Client client, int protocol) {
        String info = (String) client.run("CLIENT", "INFO");
        assertTrue(info.contains("resp=" + protocol), info);
        assertTrue(info.toLowerCase().contains("lib-name=" + client.libName().toLowerCase()), info);
        assertEquals("PONG", client.run("PING"));
    }

    /** The vectors of redis-cell: its README's, its unit test's at t = 0, and a burst taken to its end. */
    private static void clThrottle(Client client, int protocol) {
        assertEquals(List.of(0L, 16L, 15L, -1L, 2L), client.run("CL.THROTTLE", Endpoint.newKey(), "15", "30", "60"));

        String key = Endpoint.newKey();
        List<String[]> commands = new ArrayList<>();
        List<Object> want = new ArrayList<>();
        commands.add(new String[] {"CL.THROTTLE", key, "4", "1", "1", "6"});
        want.add(List.of(1L, 5L, 5L, -1L, 0L));
        for (long i = 0; i < 5; i++) {
            commands.add(new String[] {"CL.THROTTLE", key, "4", "1", "1"});
            want.add(List.of(0L, 5L, 4 - i, -1L, i + 1));
        }
        commands.add(new String[] {"CL.THROTTLE", key, "4", "1", "1"});
        want.add(List.of(1L, 5L, 0L, 1L, 5L));
        assertEquals(want, client.pipeline(commands));

        String burst = Endpoint.newKey();
        for (long left = 15; left >= 0; left--) {
            List<?> admitted = (List<?>) client.run("CL.THROTTLE", burst, "15", "30", "3600");
            assertEquals(List.of(0L, 16L, left, -1L), admitted.subList(0, 4));
        }
        List<?> denied = (List<?>) client.run("CL.THROTTLE", burst, "15", "30", "3600");
        assertEquals(List.of(1L, 16L, 0L), denied.subList(0, 3));
        assertEquals(120, (Long) denied.get(3), 5.0);
        assertEquals(16 * 120, (Long) denied.get(4), 5.0);
    }

    private static void limit(Client client, int protocol) {
        String key = Endpoint.newKey();
        Map<String, Object> first = named(client.run("RL.LIMIT", key, "10", "1d"), DECISION, protocol);
        assertEquals(
                Map.of("allowed", 1L, "limit", 10L, "remaining", 9L,
                        "retry_after_ms", 0L, "reset_after_ms", 8640000L, "delay_ms", 0L),
                first);
        assertEquals(9L, named(client.run("RL.LIMIT", key, "10", "1d", "COST", "0"), DECISION, protocol).get("remaining"));
        assertEquals(1L, named(client.run("RL.LIMIT", key, "10", "1d", "COST", "8"), DECISION, protocol).get("remaining"));
        Map<String, Object> denied = named(client.run("RL.LIMIT", key, "10", "1d", "COST", "2"), DECISION, protocol);
        assertEquals(0L, denied.get("allowed"));
        assertEquals(1L, denied.get("remaining"), "what is denied takes nothing");
        assertEquals(8640000, (Long) denied.get("retry_after_ms"), 5000.0);
        assertEquals(
                -1L, named(client.run("RL.LIMIT", key, "10", "1d", "COST", "11"), DECISION, protocol).get("retry_after_ms"));
    }

    private static void chain(Client client, int protocol) {
        String hour = Endpoint.newKey();
        String day = Endpoint.newKey();
        List<String> names = new ArrayList<>(DECISION);
        names.add("limits");
        String[] chain = {"RL.LIMIT", hour, "2", "1h", "AND", day, "100", "1d", "COST", "10"};
        for (long left = 1; left >= 0; left--) {
            Map<String, Object> admitted = named(client.run(chain), names, protocol);
            assertEquals(1L, admitted.get("allowed"));
            assertEquals(left, admitted.get("remaining"), "the first has the least remaining");
        }
        Map<String, Object> denied = named(client.run(chain), names, protocol);
        assertEquals(0L, denied.get("allowed"));
        assertEquals(2L, denied.get("limit"), "the limit that denied");
        List<?> each = (List<?>) denied.get("limits");
        assertEquals(2, each.size());
        assertEquals(0L, named(each.get(0), DECISION, protocol).get("remaining"));
        assertEquals(80L, named(each.get(1), DECISION, protocol).get("remaining"), "all or none");
    }

    private static void gcra(Client client, int protocol) {
        String key = Endpoint.newKey();
        assertEquals(List.of(0L, 5L, 4L, -1L, 720L), client.run("GCRA", key, "4", "5", "3600"));
        assertEquals(List.of(0L, 5L, 0L, -1L, 3600L), client.run("GCRA", key, "4", "5", "3600", "TOKENS", "4"));
        assertEquals(List.of(1L, 5L, 0L, 720L, 3600L), client.run("GCRA", key, "4", "5", "3600"));
    }

    private static void increx(Client client, int protocol) {
        String key = Endpoint.newKey();
        String[] twice = {"INCREX", key, "BYINT", "2", "UBOUND", "5", "EX", "60", "ENX"};
        assertEquals(List.of(2L, 2L), client.run(twice));
        assertEquals(List.of(4L, 2L), client.run(twice));
        assertEquals(List.of(4L, 0L), client.run(twice), "out of bounds changes nothing");
        assertEquals(60, (Long) client.run("TTL", key), 2.0);
    }

    private static void slots(Client client, int protocol) {
        String key = Endpoint.newKey();
        String[] acquire = {"RL.ACQUIRE", key, "2", "60"};
        Map<String, Object> first = named(client.run(acquire), SLOTS, protocol);
        assertEquals(1L, first.get("allowed"));
        assertEquals(1L, first.get("remaining"));
        String id = (String) first.get("id");
        assertEquals(32, id.length());
        assertEquals(0L, named(client.run("RL.ACQUIRE", key, "2", "60", "ID", "mine"), SLOTS, protocol).get("remaining"));
        Map<String, Object> full = named(client.run(acquire), SLOTS, protocol);
        assertEquals(0L, full.get("allowed"));
        assertNull(full.get("id"));
        assertEquals(1L, client.run("RL.EXTEND", key, "mine", "2m"));
        assertEquals(1L, client.run("RL.RELEASE", key, id));
        assertEquals(0L, client.run("RL.RELEASE", key, id), "released already");
        assertEquals(1L, named(client.run(acquire), SLOTS, protocol).get("allowed"));
    }

    private static void errors(Client client, int protocol) {
        String key = Endpoint.newKey();
        client.run("RL.LIMIT", key, "10", "60");
        Map<String[], String> errors = Map.of(
                new String[] {"INCREX", key}, "WRONGTYPE ",
                new String[] {"RL.LIMIT", key, "10", "60", "NONSENSE"}, "ERR syntax error",
                new String[] {"RL.LIMIT", key, "10", "60", "AND", key, "1", "1"}, "ERR duplicate key",
                new String[] {"CL.THROTTLE", key, "many", "30", "60"}, "ERR value is not an integer",
                new String[] {"CL.THROTTLE", key}, "ERR wrong number of arguments",
                new String[] {"NOSUCHCOMMAND", "a"}, "ERR unknown command 'NOSUCHCOMMAND'");
        errors.forEach((command, text) -> {
            RuntimeException error = assertThrows(client.serverError(), () -> client.run(command));
            assertTrue(error.getMessage().startsWith(text), error.getMessage());
        });
        Object left = named(client.run("RL.LIMIT", key, "10", "60"), DECISION, protocol).get("remaining");
        assertEquals(8L, left, "errors charge nothing");
    }

    private static void keyspace(Client client, int protocol) {
        String bucket = Endpoint.newKey();
        String counter = Endpoint.newKey();
        client.run("RL.LIMIT", bucket, "10", "600");
        client.run("INCREX", counter);
        assertEquals(2L, client.run("EXISTS", bucket, counter, Endpoint.newKey()));
        assertEquals("token", client.run("TYPE", bucket));
        assertEquals("string", client.run("TYPE", counter));
        assertEquals(60, (Long) client.run("TTL", bucket), 2.0);
        assertEquals(-1L, client.run("TTL", counter));
        assertEquals(2L, client.run("DEL", bucket, counter));
        assertEquals(0L, client.run("EXISTS", bucket));
    }

    private static void pipeline(Client client, int protocol) {
        int n = 500;
        String key = Endpoint.newKey();
        List<String[]> commands = new ArrayList<>();
        for (int i = 0; i < n; i++) {
            commands.add(new String[] {"CL.THROTTLE", key, String.valueOf(n - 1), String.valueOf(n), "86400"});
            commands.add(new String[] {"ECHO", String.valueOf(i)});
        }
        List<Object> replies = client.pipeline(commands);
        assertEquals(2 * n, replies.size());
        for (int i = 0; i < n; i++) {
            assertEquals(List.of(0L, (long) n, (long) n - 1 - i), ((List<?>) replies.get(2 * i)).subList(0, 3));
            assertEquals(String.valueOf(i), replies.get(2 * i + 1));
        }
    }

    private static void concurrency(Client client, int protocol) throws Exception {
        long limit = 123;
        String key = Endpoint.newKey();
        ExecutorService threads = Executors.newFixedThreadPool(50);
        try {
            Callable<Long> task = () -> {
                long admitted = 0;
                for (int i = 0; i < 10; i++) {
                    List<?> reply = (List<?>) client.run("CL.THROTTLE", key, String.valueOf(limit - 1), "1", "86400");
                    admitted += reply.get(0).equals(0L) ? 1 : 0;
                }
                return admitted;
            };
            long admitted = 0;
            for (Future<Long> future : threads.invokeAll(Collections.nCopies(50, task))) {
                admitted += future.get();
            }
            assertEquals(limit, admitted);
        } finally {
            threads.shutdownNow();
        }
    }

    private static void reconnect(Library library, int protocol) throws Exception {
        try (Server server = new Server();
                Client client = library.open(server.endpoint(), protocol)) {
            String[] check = {"RL.LIMIT", Endpoint.newKey(), "3", "1d"};
            assertEquals(2L, named(client.run(check), DECISION, protocol).get("remaining"));
            assertEquals(1L, named(client.run(check), DECISION, protocol).get("remaining"));
            server.close();
            server.start();
            Object left = null;
            for (Instant deadline = Instant.now().plus(Duration.ofSeconds(10)); left == null; ) {
                try {
                    left = named(client.run(check), DECISION, protocol).get("remaining");
                } catch (RuntimeException broken) {
                    assertTrue(Instant.now().isBefore(deadline), broken::toString);
                }
            }
            assertEquals(2L, left, "the restarted server has no state");
        }
    }

    /** Names the values of a reply: of an array in RESP2, of a map in RESP3. */
    @SuppressWarnings("unchecked")
    private static Map<String, Object> named(Object reply, List<String> names, int protocol) {
        if (protocol == 3) {
            Map<String, Object> map = (Map<String, Object>) assertInstanceOf(Map.class, reply);
            assertEquals(names, List.copyOf(map.keySet()));
            return map;
        }
        List<Object> values = (List<Object>) assertInstanceOf(List.class, reply);
        assertEquals(names.size(), values.size());
        Map<String, Object> map = new LinkedHashMap<>();
        for (int i = 0; i < names.size(); i++) {
            map.put(names.get(i), values.get(i));
        }
        return map;
    }
}
