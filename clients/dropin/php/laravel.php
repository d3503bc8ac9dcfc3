<?php

// A contract through Laravel: its RateLimiter over a Redis cache, and its
// limiters in Redis, with phpredis and with Predis.

require __DIR__ . '/tap.php';
require_once 'Illuminate/Container/autoload.php';
require_once 'Illuminate/Cache/autoload.php';
require_once 'Illuminate/Redis/autoload.php';
require_once 'Predis/autoload.php';

use Illuminate\Cache\RateLimiter;
use Illuminate\Cache\RedisStore;
use Illuminate\Cache\Repository;
use Illuminate\Container\Container;
use Illuminate\Contracts\Redis\LimiterTimeoutException;
use Illuminate\Redis\RedisManager;

function manager(string $client): RedisManager
{
    $server = ['host' => HOST, 'port' => PORT, 'database' => 0];
    $config = ['default' => $server, 'cache' => ['database' => 1] + $server, 'options' => ['prefix' => 'laravel_database_']];
    return new RedisManager(new Container(), $client, $config);
}

function cache(string $client): Repository
{
    return new Repository(new RedisStore(manager($client), 'laravel_cache:', 'cache'));
}

foreach (['phpredis', 'predis'] as $client) {
    check("$client: RateLimiter counts hits", function () use ($client) {
        $limiter = new RateLimiter(cache($client));
        for ($hits = 1; $hits <= 3; $hits++) {
            equal(false, $limiter->tooManyAttempts('a', 3));
            equal($hits, $limiter->hit('a', 60));
            equal(3 - $hits, $limiter->remaining('a', 3));
        }
        equal(true, $limiter->tooManyAttempts('a', 3));
        within(58, 60, $limiter->availableIn('a'));
        equal(false, $limiter->tooManyAttempts('b', 3));
        $limiter->clear('a');
        equal(3, $limiter->remaining('a', 3));
    });

    check("$client: its keys are in the cache's database and expire", function () use ($client) {
        (new RateLimiter(cache($client)))->hit('a', 60);
        equal([], server(0)->keys('*'));
        $redis = server(1);
        $keys = $redis->keys('*');
        equal(2, count($keys));
        foreach ($keys as $key) {
            within(58, 60, $redis->ttl($key), $key);
        }
    });

    check("$client: attempts are made until there are too many, and again later", function () use ($client) {
        $limiter = new RateLimiter(cache($client));
        $made = array_map(fn () => $limiter->attempt('a', 2, fn () => 'made', 1), range(1, 3));
        equal(['made', 'made', false], $made);
        usleep(1_100_000);
        equal('made', $limiter->attempt('a', 2, fn () => 'made', 1));
    });

    check("$client: hits of processes at once are counted once each", function () use ($client) {
        $made = count_of(4, function () use ($client) {
            $limiter = new RateLimiter(cache($client));
            for ($i = 0; $i < 25; $i++) {
                $limiter->hit('a', 60);
            }
            return 1;
        });
        equal(4, $made);
        equal(100, (int) (new RateLimiter(cache($client)))->attempts('a'));
    });

    check("$client: throttle lets so many pass in a time", function () use ($client) {
        $connection = manager($client)->connection();
        $pass = fn () => $connection->throttle('jobs')->allow(3)->every(2)->block(0)->then(fn () => 'done', fn () => 'later');
        equal(['done', 'done', 'done', 'later'], array_map($pass, range(1, 4)));
        usleep(3_100_000);
        equal('done', $pass());
    });

    check("$client: throttle tells what is left", function () use ($client) {
        $connection = manager($client)->connection();
        $limiter = new Illuminate\Redis\Limiters\DurationLimiter($connection, 'requests', 2, 60);
        equal(false, $limiter->tooManyAttempts() && $limiter->remaining > 0);
        equal(true, $limiter->acquire());
        equal(1, (int) $limiter->remaining);
        equal(true, $limiter->acquire());
        equal(false, $limiter->acquire());
        equal(true, $limiter->tooManyAttempts());
        within(time() + 58, time() + 60, (int) $limiter->decaysAt);
        within(110, 120, server(0)->ttl('laravel_database_requests'));
        $limiter->clear();
        equal(true, $limiter->acquire());
    });

    check("$client: throttle admits processes at once as often as it says", function () use ($client) {
        $passed = count_of(4, function () use ($client) {
            $limiter = new Illuminate\Redis\Limiters\DurationLimiter(manager($client)->connection(), 'requests', 30, 60);
            return count(array_filter(array_map(fn () => $limiter->acquire(), range(1, 15))));
        });
        equal(30, $passed);
    });

    check("$client: funnel lets so many in at once", function () use ($client) {
        $connection = manager($client)->connection();
        $inner = fn () => $connection->funnel('jobs')->limit(2)->releaseAfter(60)->block(0)->then(fn () => 'in', fn () => 'full');
        $nested = $connection->funnel('jobs')->limit(2)->releaseAfter(60)->block(0)->then(
            fn () => $connection->funnel('jobs')->limit(2)->releaseAfter(60)->block(0)->then($inner)
        );
        equal('full', $nested);
        equal('in', $inner());
    });

    check("$client: a cache's lock", function () use ($client) {
        $one = cache($client)->lock('work', 10);
        $two = cache($client)->lock('work', 10);
        equal(true, $one->get());
        equal(false, $two->get());
        equal(false, $two->release());
        equal(true, $one->release());
        equal(true, $two->get());
    });

    check("$client: the cache itself", function () use ($client) {
        $cache = cache($client);
        equal(true, $cache->add('a', 'one', 10));
        equal(false, $cache->add('a', 'two', 10));
        equal('one', $cache->get('a'));
        $cache->put('n', 5, 10);
        equal(7, (int) $cache->increment('n', 2));
        equal(['a' => 'one', 'n' => '7', 'none' => null], array_map(fn ($v) => $v === null ? null : (string) $v, $cache->many(['a', 'n', 'none'])));
        $cache->putMany(['x' => 1, 'y' => 2], 10);
        equal(true, $cache->forget('a'));
        equal(null, $cache->get('a'));
        $cache->flush();
        equal(0, server(1)->dbSize());
    });
}
