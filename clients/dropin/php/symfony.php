<?php

// A contract through Symfony's rate limiters, whose state is in a cache in
// Redis, behind a lock in Redis, with phpredis and with Predis.

require __DIR__ . '/tap.php';
require_once 'Symfony/Component/RateLimiter/autoload.php';
require_once 'Symfony/Component/Cache/autoload.php';
require_once 'Symfony/Component/Lock/autoload.php';
require_once 'Predis/autoload.php';

use Symfony\Component\Cache\Adapter\RedisAdapter;
use Symfony\Component\Lock\Key;
use Symfony\Component\Lock\LockFactory;
use Symfony\Component\Lock\Store\RedisStore;
use Symfony\Component\RateLimiter\RateLimiterFactory;
use Symfony\Component\RateLimiter\Storage\CacheStorage;

$clients = [
    'phpredis' => fn () => server(),
    'predis' => fn () => new Predis\Client(['host' => HOST, 'port' => PORT]),
];

foreach ($clients as $name => $connect) {
    $limiter = function (string $policy, int $limit, string $interval) use ($connect) {
        $client = $connect();
        $config = ['id' => 'api', 'policy' => $policy, 'limit' => $limit];
        if ($policy === 'token_bucket') {
            $config['rate'] = ['interval' => $interval, 'amount' => $limit];
        } else {
            $config['interval'] = $interval;
        }
        return new RateLimiterFactory($config, new CacheStorage(new RedisAdapter($client, 'limits')), new LockFactory(new RedisStore($client)));
    };

    foreach (['fixed_window', 'sliding_window', 'token_bucket'] as $policy) {
        check("$name: $policy counts to its limit", function () use ($limiter, $policy) {
            $one = $limiter($policy, 3, '1 hour')->create('a');
            foreach ([2, 1, 0] as $left) {
                $limit = $one->consume();
                equal(true, $limit->isAccepted());
                equal($left, $limit->getRemainingTokens());
            }
            $limit = $one->consume();
            equal(false, $limit->isAccepted());
            within(time() + 60, time() + 7200, $limit->getRetryAfter()->getTimestamp());
            equal(true, $limiter($policy, 3, '1 hour')->create('b')->consume()->isAccepted());
            $one->reset();
            equal(true, $one->consume()->isAccepted());
        });

        check("$name: $policy lets pass again", function () use ($limiter, $policy) {
            $one = $limiter($policy, 1, '1 second')->create('a');
            equal(true, $one->consume()->isAccepted());
            equal(false, $one->consume()->isAccepted());
            usleep(2_100_000);
            equal(true, $one->consume()->isAccepted());
        });

        check("$name: $policy admits processes at once as often as it says", function () use ($limiter, $policy) {
            $passed = count_of(4, function () use ($limiter, $policy) {
                $one = $limiter($policy, 20, '1 hour')->create('a');
                return count(array_filter(array_map(fn () => $one->consume()->isAccepted(), range(1, 10))));
            });
            equal(20, $passed);
        });
    }

    check("$name: a lock, refreshed and shared", function () use ($connect) {
        $store = new RedisStore($connect());
        $one = new Key('work');
        $two = new Key('work');
        $store->save($one);
        equal(true, $store->exists($one));
        try {
            $store->save($two);
            throw new Exception('it was locked');
        } catch (Symfony\Component\Lock\Exception\LockConflictedException $e) {
        }
        $store->putOffExpiration($one, 60);
        $store->delete($one);
        $store->saveRead($one);
        $store->saveRead($two);
        equal(true, $store->exists($one) && $store->exists($two));
        $store->delete($one);
        $store->save($two);
        equal(true, $store->exists($two));
    });

    check("$name: what is cached expires", function () use ($connect) {
        $cache = new RedisAdapter($connect(), 'cache');
        $item = $cache->getItem('a');
        $item->set(['n' => 1])->expiresAfter(1);
        equal(true, $cache->save($item));
        equal(['n' => 1], $cache->getItem('a')->get());
        usleep(1_100_000);
        equal(false, $cache->getItem('a')->isHit());
        $cache->save($cache->getItem('b')->set(1));
        equal(true, $cache->clear());
        equal(false, $cache->hasItem('b'));
    });
}
