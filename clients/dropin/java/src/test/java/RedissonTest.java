import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.redisson.Redisson;
import org.redisson.api.RRateLimiter;
import org.redisson.api.RateType;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/** A contract through Redisson's RRateLimiter. */
class RedissonTest {
    private RedissonClient client;
    private RRateLimiter limiter;

    @BeforeEach
    void connect() {
        Config config = new Config();
        config.useSingleServer().setAddress(Target.URL).setConnectionMinimumIdleSize(2).setConnectionPoolSize(8);
        client = Redisson.create(config);
        limiter = client.getRateLimiter(UUID.randomUUID().toString());
    }

    @AfterEach
    void disconnect() {
        client.shutdown();
    }

    @Test
    void permitsAreTakenToTheLast() {
        assertTrue(limiter.trySetRate(RateType.OVERALL, 5, Duration.ofSeconds(30)));
        assertFalse(limiter.trySetRate(RateType.OVERALL, 9, Duration.ofSeconds(30)), "it is set");
        assertEquals(5, limiter.availablePermits());
        assertTrue(limiter.tryAcquire(3));
        assertEquals(2, limiter.availablePermits());
        assertFalse(limiter.tryAcquire(3));
        assertTrue(limiter.tryAcquire(2));
        assertFalse(limiter.tryAcquire());
        assertEquals(5, limiter.getConfig().getRate());
    }

    @Test
    void permitsReturn() {
        limiter.trySetRate(RateType.OVERALL, 2, Duration.ofMillis(600));
        assertTrue(limiter.tryAcquire(2));
        assertFalse(limiter.tryAcquire());
        Target.sleep(700);
        assertTrue(limiter.tryAcquire(2));
        assertFalse(limiter.tryAcquire());
    }

    @Test
    void oneWaitsForAPermit() {
        limiter.trySetRate(RateType.OVERALL, 1, Duration.ofMillis(500));
        assertTrue(limiter.tryAcquire());
        long from = System.nanoTime();
        assertTrue(limiter.tryAcquire(1, Duration.ofSeconds(5)));
        long waited = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - from);
        assertTrue(waited >= 350 && waited < 4000, waited + " ms");
    }

    @Test
    void aHundredAtOnceGetWhatThereIs() {
        limiter.trySetRate(RateType.OVERALL, 40, Duration.ofSeconds(30));
        var taken = new AtomicInteger();
        IntStream.range(0, 100).parallel().forEach(i -> {
            if (limiter.tryAcquire()) {
                taken.incrementAndGet();
            }
        });
        assertEquals(40, taken.get());
    }

    @Test
    void perClient() {
        limiter.trySetRate(RateType.PER_CLIENT, 2, Duration.ofSeconds(30));
        assertTrue(limiter.tryAcquire(2));
        assertFalse(limiter.tryAcquire());
        limiter.setRate(RateType.OVERALL, 3, Duration.ofSeconds(30));
        assertTrue(limiter.tryAcquire(3), "another rate begins anew");
        assertTrue(limiter.delete());
        assertFalse(limiter.isExists());
    }

    @Test
    void itExpires() {
        limiter.trySetRate(RateType.OVERALL, 2, Duration.ofSeconds(10));
        limiter.tryAcquire();
        assertTrue(limiter.expire(Duration.ofSeconds(20)));
        long left = limiter.remainTimeToLive();
        assertTrue(left > 18_000 && left <= 20_000, left + " ms");
    }
}
