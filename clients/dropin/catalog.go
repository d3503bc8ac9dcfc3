package main

// suites are what is run, in the order of the table.
var suites = []suite{
	{
		library: "redis_rate", version: "v10.0.1", what: "its own: rate_test.go", port: "6379",
		fetch: fetchGo, run: runGo, packages: []string{"github.com/go-redis/redis_rate/v10"},
	},
	{
		library: "ulule/limiter", version: "v3.11.2", what: "its own: drivers/store/redis",
		fetch: fetchGo, run: runGo, packages: []string{"github.com/ulule/limiter/v3/drivers/store/redis"},
	},
	{
		library: "throttled", version: "v2.15.0", what: "its own: goredisstore.v9, redigostore", port: "6379",
		fetch: fetchGo, run: runGo, packages: []string{
			"github.com/throttled/throttled/v2/store/goredisstore.v9", "github.com/throttled/throttled/v2/store/redigostore",
		},
	},
	{
		library: "go-redisstore", version: "v0.3.0", what: "its own: store_test.go",
		fetch: fetchGo, run: runGo, packages: []string{"github.com/sethvargo/go-redisstore"}, tests: []string{"TestStore"},
	},
	{
		library: "redislock", version: "v0.9.4", what: "its own: redislock_test.go", port: "6379",
		fetch: fetchGo, run: runGo, packages: []string{"github.com/bsm/redislock"},
	},
	{
		library: "envoyproxy/ratelimit", version: envoyVersion, what: "its own: test/integration over plain servers", port: "6383", ports: append(envoyServicePorts, "6380", "6384", "6385"),
		fetch: fetchEnvoy, run: runEnvoyTests, packages: []string{envoyModule + "/src/service_cmd"},
		tests: []string{"TestBasicConfig", "TestBasicConfig_ExtraTags", "TestBasicAuthConfig", "TestBasicReloadConfig", "TestShareThreshold"},
	},
	{
		library: "envoyproxy/ratelimit", version: envoyVersion, what: "its own: test/integration over Redis Cluster and Sentinel, three nodes each", ports: append(envoyServicePorts, envoyNodePorts()...),
		fetch: fetchEnvoy, run: runEnvoyNodes, packages: []string{envoyModule + "/src/service_cmd"},
	},
	{
		library: "envoyproxy/ratelimit", version: envoyVersion, what: "a contract of ours: the service under load, its limits denying",
		fetch: fetchEnvoy, run: runEnvoy, packages: []string{envoyModule + "/src/service_cmd"},
	},
	{
		library: "envoyproxy/ratelimit", version: envoyVersion, what: "its decisions: the same random requests to it and to policies imported from its files",
		fetch: fetchEnvoy, run: runEnvoyDialect, packages: []string{envoyModule + "/src/service_cmd"},
	},
	{
		library: "@fastify/rate-limit", version: "11.2.0", what: "its own: redis-rate-limit.test.js", port: "6379",
		fetch: fetchNode, run: runNode, room: "node", tests: []string{"node_modules/@fastify/rate-limit/test/redis-rate-limit.test.js"},
	},
	bottleneck("ioredis"),
	bottleneck("redis"),
	{
		library: "ratelimiter", version: "3.4.1", what: "its own: test/index.js", port: "6379", tries: 3, // it races with itself
		fetch: fetchNode, run: runMocha, room: "mocha", tests: []string{"node_modules/ratelimiter/test/index.js"},
	},
	{
		library: "hapi-rate-limitor", version: "4.0.0", what: "its own", port: "6379",
		fetch: fetchNode, run: runAva, room: "node", own: true,
	},
	{
		library: "rolling-rate-limiter", version: "0.4.2", what: "its own: lib/index.test.js", port: "6379",
		fetch: fetchNode, run: runJest, room: "node", own: true, tests: []string{"lib/index.test.js"},
	},
	{
		library: "limits", version: "5.8.0", what: "its own: strategies and storage on Redis", port: "7379",
		fetch: fetchPython, run: runPython, plugin: "limits_services", tests: []string{
			// Its settings turn warnings of newer test runners into errors.
			"limits-5.8.0", "-p", "no:pytest-retry", "-W", "ignore", "--no-cov", "-m", "redis", "tests",
		},
		allowed: []allowance{{whyLarge, []string{"*test_moving_window_huge_cost*"}}},
	},
	{
		library: "Flask-Limiter", version: "4.1.1", what: "its own: those that ask for Redis", port: "46379",
		fetch: fetchPython, run: runPython, plugin: "limits_services", tests: []string{
			"flask_limiter-4.1.1", "-W", "ignore", "--no-cov", "-k", "redis or fallback or custom_key_prefix or clear_limits or constructor_arguments",
			"tests/test_regressions.py", "tests/test_configuration.py", "tests/test_error_handling.py", "tests/test_flask_ext.py",
		},
	},
	{
		library: "pyrate-limiter", version: "4.5.1", what: "its own: those of its Redis buckets", port: "6379",
		fetch: fetchPython, run: runPython, tests: []string{"pyrate_limiter-4.5.1", "-p", "no:flaky", "-m", "redis or asyncredis", "tests"},
	},
	{
		library: "throttled-py", version: "3.5.0", what: "its own: limiters and stores, a server for its fake",
		fetch: fetchPython, run: runPython, plugin: "throttled_redis", tries: 2, tests: []string{
			// Those at once are thousands of calls each.
			"throttled_py-3.5.0", "-p", "no:benchmark", "-W", "ignore", "-k", "redis and not concurrent",
			"tests/rate_limiter", "tests/store", "tests/asyncio/rate_limiter", "tests/asyncio/store",
		},
	},
	{
		library: "walrus", version: "0.9.8", what: "its own: rate_limit, counter, cache",
		fetch: fetchPython, run: runPython, tests: []string{
			"walrus-0.9.8", "walrus/tests/rate_limit.py", "walrus/tests/counter.py", "walrus/tests/cache.py",
		},
	},
	goRedis,
	fakeredisThrottle, fakeredisIncrex, fakeredisCommands,
	redisPy2, redisPy3, redisPyAsync,
	contract("rate-limiter-flexible", "11.4.0", "rate-limiter-flexible.test.mjs"),
	contract("rate-limit-redis", "6.0.1", "rate-limit-redis.test.mjs"),
	contract("@nest-lab/throttler-storage-redis", "1.2.0", "nest-throttler.test.mjs"),
	contract("koa-ratelimit", "6.0.0", "koa-ratelimit.test.mjs"),
	contract("async-ratelimiter", "1.6.10", "async-ratelimiter.test.mjs"),
	{
		library: "fastapi-limiter", version: "0.1.6", what: contractOfOurs,
		fetch: fetchPython, run: runPython, tests: []string{".", "test_fastapi_limiter.py"},
	},
	{
		library: "django-ratelimit", version: "4.1.0", what: contractOfOurs,
		fetch: fetchPython, run: runPython, tests: []string{".", "test_django_ratelimit.py"},
	},
	jvm("Spring Cloud Gateway", "4.3.0", "SpringCloudGatewayTest"),
	jvm("Bucket4j", "8.17.0", "Bucket4jTest"),
	jvm("Redisson", "3.52.0", "RedissonTest"),
	{
		library: "rack-attack", what: contractOfOurs, fetch: fetchDebian, run: runDebian, room: "ruby", tests: []string{"rack_attack.rb"},
		needs: []need{ruby, gem("ruby-redis", "redis"), gem("ruby-activesupport", "active_support"), gem("ruby-rack-attack", "rack/attack")},
	},
	{
		library: "Rails' RedisCacheStore", what: contractOfOurs, fetch: fetchDebian, run: runDebian, room: "ruby", tests: []string{"rails_cache.rb"},
		needs: []need{ruby, gem("ruby-redis", "redis"), gem("ruby-activesupport", "active_support")},
	},
	{
		library: "Laravel", what: contractOfOurs, fetch: fetchDebian, run: runDebian, room: "php", tests: []string{"laravel.php"},
		needs: []need{
			php, phpRedis, predis, phpFile("php-illuminate-container", "Illuminate/Container/autoload.php"),
			phpFile("php-illuminate-cache", "Illuminate/Cache/autoload.php"), phpFile("php-illuminate-redis", "Illuminate/Redis/autoload.php"),
		},
	},
	{
		library: "Symfony RateLimiter", what: contractOfOurs, fetch: fetchDebian, run: runDebian, room: "php", tests: []string{"symfony.php"},
		needs: []need{php, phpRedis, predis, phpFile("php-symfony-cache", "Symfony/Component/Cache/autoload.php"), phpFile("php-symfony-rate-limiter", "Symfony/Component/RateLimiter/autoload.php")},
	},
	redisTcl("strings, hashes, lists, sets, sorted sets", tclValuesFail, tclValuesNotRun,
		"type/string", "type/incr", "type/hash", "type/list", "type/list-2", "type/list-3", "type/set", "type/zset"),
	redisTcl("keys, transactions, scripts, Pub/Sub, the server", tclServerFail, tclServerNotRun,
		"expire", "keyspace", "scan", "multi", "scripting", "pubsub", "protocol", "introspection", "introspection-2", "pause", "slowlog"),
}

// contractOfOurs is what is run where a package carries no tests.
const contractOfOurs = "a contract of ours: the package has no tests"

// contract is a suite of ours through a Node library.
func contract(library, version, file string) suite {
	return suite{library: library, version: version, what: contractOfOurs, fetch: fetchNode, run: runNode, room: "node", tests: []string{file}}
}

// jvm is a suite of ours through a library of the Java virtual machine.
func jvm(library, version, test string) suite {
	return suite{
		library: library, version: version, what: contractOfOurs, fetch: fetchJava, run: runJava, tests: []string{test},
		needs: []need{{"a JDK of version 17 or later", []string{"javac", "--version"}}, {"maven", []string{"mvn", "--version"}}},
	}
}

// bottleneck is the library's own tests with one of the clients it knows. They
// judge by tens of milliseconds.
func bottleneck(client string) suite {
	return suite{
		library: "bottleneck", version: "2.19.5", what: "its own, with " + client, port: "6379",
		fetch: fetchNode, run: runMocha, room: "mocha", env: []string{"DATASTORE=" + client}, tries: 3, tests: []string{"node_modules/bottleneck/test"},
	}
}
