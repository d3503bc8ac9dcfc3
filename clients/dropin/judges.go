package main

import (
	"context"
	"path/filepath"
	"slices"
)

// later is tests of fakeredis of a command that the installed Redis does not have. They
// run against its imitation of Redis and against a server, on port 6390.
func later(file, told string, allowed ...allowance) suite {
	return suite{
		library: "fakeredis", version: "2.40.0", what: "its own: " + filepath.Base(file), port: "6390", alone: true,
		fetch: fetchPython, run: runPython, plugin: "fakeredis_told", env: []string{"TOLD=" + told},
		tests: []string{"fakeredis-2.40.0", "-W", "ignore", "-m", "real", file}, allowed: allowed,
	}
}

var (
	fakeredisIncrex   = later("test/test_mixins/test_specific_redis_versions/test_redis_8_8_increx.py", "redis_version=8.8.0")
	fakeredisThrottle = later("test/test_dragonfly/test_cl_throttle.py", "dragonfly_version=df-v1.30.0",
		allowance{"A limit is not a string: `GET` of a limit answers `WRONGTYPE`, and so does `CL.THROTTLE` of any string.", []string{
			"*test_cl_throttle_stores_expiring_key*", "*test_cl_throttle_wrong_type*",
		}},
		allowance{"An error says which argument of `CL.THROTTLE` is out of range.", []string{
			"*test_cl_throttle_zero_rates*", "*test_cl_throttle_invalid_args[*-args0]", "*test_cl_throttle_invalid_args[*-args1]",
			"*test_cl_throttle_invalid_args[*-args2]", "*test_cl_throttle_invalid_args[*-args3]",
		}},
		allowance{"A negative quantity gives units back, as in redis-cell.", []string{"*test_cl_throttle_invalid_args[*-args4]"}},
	)
)

// fakeredisCommands are those of commands that are there, over the server alone.
var fakeredisCommands = suite{
	library: "fakeredis", version: "2.40.0", what: "its own: test_mixins, those of commands that are there", port: "6390",
	fetch: fetchPython, run: runPython, tries: 2, tests: append([]string{"fakeredis-2.40.0", "-W", "ignore", "--tb", "native", "-m", "real"}, fakeredisFiles...),
	allowed: []allowance{
		{whyAbsent, of("*_generic_commands test_", "sort_alpha*", "sort_by_*", "sort_descending*", "sort_empty*", "sort_range_offset_range*", "sort_range_with*", "sort_ro*", "sort_set_*", "sort_with_*",
			"dump_*", "restore_*", "basic_sort*", "watch_when_setbit_*", "from_hypothesis_redis7*")},
		{whyAbsent, of("*_generic_scan_commands test_", "scan_stream*")},
		{whyAbsent, of("*_list_commands test_", "rpoplpush_one_to_self*", "lmpop*", "blm*", "blocking_*", "blpop_allow*", "blpop_block*", "blpop_single*", "blpop_t*",
			"brpop_block*", "brpop_single*", "brpop_test*", "brpoplpush_multi*")},
		{whyAbsent, of("*_sortedset_commands test_", "zunion[*", "zunionstore[*", "zunionstore_badkey*", "zunionstore_m*", "zunionstore_nan*", "zunionstore_sum*", "zunionstore_weights*",
			"zinter[*", "zintercard*", "zinterstore[*", "zinterstore_m*", "zinterstore_nan*", "zinterstore_onekey*", "zdiff*", "zrangestore*", "zmpop*", "bz*")},
		{whyAbsent, of("*_server_commands test_", "save*", "bgsave*", "lastsave*")},
		{whyAbsent, of("*_pubsub_commands test_", "pubsub_help_redis71*")},
		{whyAbsent, of("*_connection_commands test_", "client_unblock_*")},
		{whyAbsent, of("*_set_commands test_", "pf*")},
		{whyAbsent, []string{"*test_zadd_roman*"}},
		{whyAbsent, of("*_string_commands test_", "lcs*")},
		{whySwap, of("*_server_commands test_", "swapdb*")},
		{whyLarge, of("*_string_commands test_", "setrange[*")},
		{whyFar, of("*_generic_commands test_", "expiretime[*", "pexpiretime[*", "copy_preserves_expiry*", "copy_replaces_with_expiry*", "copy_db_replaces_with_expire*")},
		{whyScan, of("*_generic_scan_commands test_", "sscan_delete_key_while*", "hscan_delete_key_while*", "zscan_reports_the_score*", "hscan_continues_after*")},
	},
}

var fakeredisFiles = []string{
	"test/test_mixins/test_connection_commands.py", "test/test_mixins/test_string_commands.py", "test/test_mixins/test_hash_commands.py", "test/test_mixins/test_list_commands.py",
	"test/test_mixins/test_set_commands.py", "test/test_mixins/test_sortedset_commands.py", "test/test_mixins/test_sortedset_zadd.py",
	"test/test_mixins/test_generic_commands.py", "test/test_mixins/test_generic_scan_commands.py", "test/test_mixins/test_transactions_commands.py",
	"test/test_mixins/test_pubsub_commands.py", "test/test_mixins/test_scripting_commands.py", "test/test_mixins/test_server_commands.py",
}

// redisPy is the tests of redis-py that need one server.
func redisPy(what, protocol string, allowed []allowance, files ...string) suite {
	return suite{
		library: "redis-py", version: "7.4.1", what: what, port: "6379", fetch: fetchRedisPy, run: runRedisPy, tries: 2,
		tests: slices.Concat([]string{
			"redis-7.4.1", "-W", "ignore", "--tb", "native", "-p", "no:flaky", "-p", "no:pytest-retry", "-p", "no:benchmark", "--protocol", protocol,
			// Those of modules, of Redis Cluster and of replicas ask for servers of their own.
			"-m", "not onlycluster and not redismod and not ssl and not replica",
		}, files),
		allowed: allowed,
	}
}

// fetchRedisPy asks for the package by its name, redis.
func fetchRedisPy(w *workshop, s *suite) error {
	told := *s
	told.library = "redis"
	return fetchPython(w, &told)
}

func runRedisPy(ctx context.Context, w *workshop, s *suite, t target) (result, error) {
	told := *s
	told.tests = append(slices.Clip(s.tests), "--redis-url", "redis://"+t.addr+"/0")
	return runPython(ctx, w, &told, t)
}

var (
	redisPy2 = redisPy("its own, RESP2: those that need one server", "2", redisPyDiffers, redisPyFiles...)
	redisPy3 = redisPy("its own, RESP3: the same", "3", redisPyDiffers, redisPyFiles...)
	// The commands have been tested.
	redisPyAsync = redisPy("its own, asyncio: those of connections", "2", []allowance{{whyAbsent, append(debugErrors, "*test_pipeline_with_bitfield*")}}, redisPyAsyncFiles...)
)

var redisPyFiles = []string{
	"tests/test_commands.py", "tests/test_pipeline.py", "tests/test_lock.py", "tests/test_scripting.py", "tests/test_pubsub.py",
	"tests/test_connection_pool.py", "tests/test_connection.py", "tests/test_connect.py", "tests/test_client.py",
	"tests/test_encoding.py", "tests/test_monitor.py", "tests/test_multiprocessing.py", "tests/test_retry.py", "tests/test_cache.py",
}

var redisPyAsyncFiles = []string{
	"tests/test_asyncio/test_pipeline.py", "tests/test_asyncio/test_lock.py", "tests/test_asyncio/test_scripting.py", "tests/test_asyncio/test_pubsub.py",
	"tests/test_asyncio/test_connection_pool.py", "tests/test_asyncio/test_connection.py", "tests/test_asyncio/test_connect.py", "tests/test_asyncio/test_client.py",
	"tests/test_asyncio/test_encoding.py", "tests/test_asyncio/test_monitor.py", "tests/test_asyncio/test_retry.py", "tests/test_asyncio/test_cwe_404.py",
}

// debugErrors are tests that use DEBUG ERROR.
var debugErrors = of("*_connection_pool.TestConnection test_", "busy_loading_*", "connect_invalid_*", "connect_no_auth_*", "oom_error*", "read_only_error*")

// redisPyDiffers are tests of both protocols that fail against Headgate.
var redisPyDiffers = []allowance{
	{whyAbsent, of("*TestRedisCommands test_",
		"bitcount*", "bitop_*", "bitpos", "bitpos_mode", "bitfield_*", "get_set_bit", "blmove", "blpop", "brpop*", "blmpop", "lmpop", "bzpop*", "zmpop", "bzmpop",
		"dump_and_restore*", "restore*", "geoadd", "geoadd_ch", "geoadd_nx", "geoadd_xx", "geodist", "geodist_missing*", "geodist_units", "geohash*", "geopos*", "georadius*",
		"geosearch", "geosearch_member", "geosearch_sort", "geosearch_with", "geosearchstore*", "lcs", "lists_with_*_keys", "pf*", "sort_a*", "sort_b*", "sort_desc", "sort_get*", "sort_groups_three_gets", "sort_issue_924", "sort_limited", "sort_ro", "sort_store", "zdiff*", "zinter*", "zunion*", "zrangestore",
		"xack", "xadd*", "xautoclaim", "xclaim*", "xdel", "xgroup_*", "xinfo_*", "xlen", "xpending", "xpending_range", "xpending_range_idle", "xrange", "xread*", "xrevrange", "xtrim*",
		"bgsave", "lastsave", "lolwut", "replicaof", "client_unblock", "memory_malloc_stats",
	)},
	{whyAbsent, []string{"*test_pipeline_with_bitfield"}},
	{whyAbsent, debugErrors},
	{whyOneUser, of("*TestRedisCommands test_", "auth*", "acl_dryrun*", "acl_deluser*", "acl_genpass", "acl_getuser_setuser*", "acl_list*", "acl_log*", "acl_setuser_*", "client_kill_filter_by_user")},
	{whyOwnConfig, of("*TestRedisCommands test_", "config_set_multi_params")},
	{whyLarge, []string{"*test_large_responses"}},
	{whyFar, of("*TestRedisCommands test_", "expiretime", "pexpiretime")},
	{whyIdle, of("*TestRedisCommands test_", "object")},
	{"A single node answers `READONLY` with OK, like a node of a cluster.", of("*TestRedisCommands test_", "readonly_invalid_cluster_state")},
	{whyKeyFlags, of("*TestRedisCommands test_", "command_getkeysandflags")},
}
