import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.bucket4j.BucketConfiguration;
import io.github.bucket4j.distributed.ExpirationAfterWriteStrategy;
import io.github.bucket4j.distributed.proxy.ProxyManager;
import io.github.bucket4j.distributed.serialization.Mapper;
import io.github.bucket4j.redis.jedis.Bucket4jJedis;
import io.github.bucket4j.redis.lettuce.Bucket4jLettuce;
import io.github.bucket4j.redis.redisson.Bucket4jRedisson;
import io.lettuce.core.RedisClient;
import io.lettuce.core.codec.ByteArrayCodec;
import io.lettuce.core.codec.RedisCodec;
import io.lettuce.core.codec.StringCodec;
import java.time.Duration;
import java.util.UUID;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;
import redis.clients.jedis.JedisPooled;

/** A contract through Bucket4j over each of its clients. */
class Bucket4jTest {
    enum Client { LETTUCE, JEDIS, REDISSON }

    private static RedisClient lettuce;
    private static JedisPooled jedis;
    private static RedissonClient redisson;

    @BeforeAll
    static void connect() {
        lettuce = RedisClient.create(Target.URL);
        jedis = new JedisPooled(Target.HOST, Target.PORT);
        Config config = new Config();
        config.useSingleServer().setAddress(Target.URL).setConnectionMinimumIdleSize(2).setConnectionPoolSize(8);
        redisson = Redisson.create(config);
    }

    @AfterAll
    static void disconnect() {
        redisson.shutdown();
        jedis.close();
        lettuce.shutdown();
    }

    private static ProxyManager<String> manager(Client client, ExpirationAfterWriteStrategy expiration) {
        return switch (client) {
            case LETTUCE -> Bucket4jLettuce.casBasedBuilder(lettuce.connect(RedisCodec.of(StringCodec.UTF8, ByteArrayCodec.INSTANCE)))
                .expirationAfterWrite(expiration).build();
            case JEDIS -> Bucket4jJedis.casBasedBuilder(jedis).expirationAfterWrite(expiration).keyMapper(Mapper.STRING).build();
            case REDISSON -> Bucket4jRedisson.casBasedBuilder(((Redisson) redisson).getCommandExecutor()).expirationAfterWrite(expiration).build();
        };
    }

    private static final ExpirationAfterWriteStrategy REFILLED = ExpirationAfterWriteStrategy.basedOnTimeForRefillingBucketUpToMax(Duration.ofSeconds(1));

    private static BucketConfiguration configuration(long capacity, Duration period) {
        return BucketConfiguration.builder().addLimit(limit -> limit.capacity(capacity).refillGreedy(capacity, period)).build();
    }

    @ParameterizedTest
    @EnumSource
    void tokensAreConsumedToTheLast(Client client) {
        var bucket = manager(client, REFILLED).getProxy(UUID.randomUUID().toString(), () -> configuration(5, Duration.ofHours(1)));
        for (long left = 4; left >= 0; left--) {
            var probe = bucket.tryConsumeAndReturnRemaining(1);
            assertTrue(probe.isConsumed());
            assertEquals(left, probe.getRemainingTokens());
        }
        var probe = bucket.tryConsumeAndReturnRemaining(1);
        assertFalse(probe.isConsumed());
        assertTrue(probe.getNanosToWaitForRefill() > TimeUnit.MINUTES.toNanos(11), "a fifth of an hour");
        bucket.addTokens(2);
        assertTrue(bucket.tryConsume(2));
        assertFalse(bucket.tryConsume(1));
    }

    @ParameterizedTest
    @EnumSource
    void tokensReturn(Client client) {
        var bucket = manager(client, REFILLED).getProxy(UUID.randomUUID().toString(), () -> configuration(4, Duration.ofMillis(800)));
        assertTrue(bucket.tryConsume(4));
        assertFalse(bucket.tryConsume(1));
        Target.sleep(450);
        assertTrue(bucket.tryConsume(2));
        assertFalse(bucket.tryConsume(2));
    }

    @ParameterizedTest
    @EnumSource
    void aHundredAtOnceGetWhatThereIs(Client client) throws InterruptedException {
        var manager = manager(client, REFILLED);
        String key = UUID.randomUUID().toString();
        var taken = new AtomicInteger();
        var done = new CountDownLatch(100);
        var pool = Executors.newFixedThreadPool(8);
        for (int i = 0; i < 100; i++) {
            pool.submit(() -> {
                if (manager.getProxy(key, () -> configuration(40, Duration.ofHours(1))).tryConsume(1)) {
                    taken.incrementAndGet();
                }
                done.countDown();
            });
        }
        assertTrue(done.await(30, TimeUnit.SECONDS));
        pool.shutdown();
        assertEquals(40, taken.get());
    }

    @ParameterizedTest
    @EnumSource
    void theKeyGoesWhenTheBucketIsFull(Client client) {
        String key = UUID.randomUUID().toString();
        manager(client, REFILLED).getProxy(key, () -> configuration(4, Duration.ofSeconds(4))).tryConsume(4);
        long ttl = jedis.pttl(key);
        assertTrue(ttl > 3000 && ttl <= 5000, ttl + " ms");
    }

    @ParameterizedTest
    @EnumSource
    void withoutExpirationItStays(Client client) {
        String key = UUID.randomUUID().toString();
        var manager = manager(client, ExpirationAfterWriteStrategy.none());
        assertTrue(manager.getProxy(key, () -> configuration(4, Duration.ofSeconds(1))).tryConsume(1));
        assertTrue(manager.getProxy(key, () -> configuration(4, Duration.ofSeconds(1))).tryConsume(1));
        assertEquals(-1, jedis.ttl(key));
        manager.removeProxy(key);
        assertFalse(jedis.exists(key));
        assertTrue(manager.getProxyConfiguration(key).isEmpty());
    }
}
