import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.List;
import java.util.UUID;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.springframework.cloud.gateway.filter.ratelimit.RateLimiter.Response;
import org.springframework.cloud.gateway.filter.ratelimit.RedisRateLimiter;
import org.springframework.core.io.ClassPathResource;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import org.springframework.data.redis.core.ReactiveStringRedisTemplate;
import org.springframework.data.redis.core.script.DefaultRedisScript;
import org.springframework.data.redis.core.script.RedisScript;
import org.springframework.scripting.support.ResourceScriptSource;
import reactor.core.publisher.Flux;

/** A contract through the RedisRateLimiter of Spring Cloud Gateway. */
class SpringCloudGatewayTest {
    private static LettuceConnectionFactory connections;
    private static ReactiveStringRedisTemplate template;

    @BeforeAll
    static void connect() {
        connections = new LettuceConnectionFactory(Target.HOST, Target.PORT);
        connections.afterPropertiesSet();
        connections.start();
        template = new ReactiveStringRedisTemplate(connections);
    }

    @AfterAll
    static void disconnect() {
        connections.destroy();
    }

    /** A limiter with the script that the package brings. */
    @SuppressWarnings({"unchecked", "rawtypes"})
    private static RedisRateLimiter limiter(int rate, int capacity, int requested) {
        DefaultRedisScript script = new DefaultRedisScript<>();
        script.setScriptSource(new ResourceScriptSource(new ClassPathResource("META-INF/scripts/request_rate_limiter.lua")));
        script.setResultType(List.class);
        var limiter = new RedisRateLimiter(template, (RedisScript<List<Long>>) script, null); // nothing binds properties here
        limiter.getConfig().put("route", new RedisRateLimiter.Config().setReplenishRate(rate).setBurstCapacity(capacity).setRequestedTokens(requested));
        return limiter;
    }

    private static Response ask(RedisRateLimiter limiter, String id) {
        return limiter.isAllowed("route", id).block(Duration.ofSeconds(10));
    }

    private static String remaining(Response response) {
        return response.getHeaders().get(RedisRateLimiter.REMAINING_HEADER);
    }

    @Test
    void aBurstAndThenTheRate() {
        var limiter = limiter(2, 6, 1);
        String id = UUID.randomUUID().toString();
        for (int left = 5; left >= 3; left--) {
            var response = ask(limiter, id);
            assertTrue(response.isAllowed());
            assertTrue(Integer.parseInt(remaining(response)) >= left);
        }
        Response last = ask(limiter, id);
        for (int i = 0; i < 8 && last.isAllowed(); i++) {
            last = ask(limiter, id);
        }
        assertFalse(last.isAllowed());
        Target.sleep(2100);
        assertTrue(ask(limiter, id).isAllowed());
    }

    @Test
    void whatARequestCosts() {
        var limiter = limiter(1, 60, 60);
        String id = UUID.randomUUID().toString();
        assertTrue(ask(limiter, id).isAllowed());
        assertFalse(ask(limiter, id).isAllowed());
    }

    @Test
    void aHundredAtOnceGetWhatThereIs() {
        var limiter = limiter(1, 40, 1);
        String id = UUID.randomUUID().toString();
        long from = System.nanoTime();
        long allowed = Flux.range(0, 100).flatMap(i -> limiter.isAllowed("route", id), 20).filter(Response::isAllowed).count()
            .block(Duration.ofSeconds(20));
        long seconds = Duration.ofNanos(System.nanoTime() - from).toSeconds() + 1;
        assertTrue(allowed >= 40 && allowed <= 40 + seconds, allowed + " within " + seconds + " s");
    }

    @Test
    void keysExpire() {
        var limiter = limiter(1, 10, 1);
        String id = UUID.randomUUID().toString();
        ask(limiter, id);
        var keys = template.keys("request_rate_limiter.*" + id + "*").collectList().block();
        assertEquals(2, keys.size());
        for (String key : keys) {
            long left = template.getExpire(key).block().toSeconds();
            assertTrue(left > 15 && left <= 20, key + " " + left);
        }
    }

    @Test
    void aScriptThatIsForgottenIsSentAgain() {
        var limiter = limiter(1, 10, 1);
        String id = UUID.randomUUID().toString();
        assertTrue(ask(limiter, id).isAllowed());
        template.execute(connection -> connection.scriptingCommands().scriptFlush()).blockLast();
        assertTrue(ask(limiter, id).isAllowed());
        assertTrue(Integer.parseInt(remaining(ask(limiter, id))) <= 8, "it counts on");
    }
}
