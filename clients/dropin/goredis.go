package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// goRedis is the tests of go-redis that need one server. Its own configuration of a
// hosted Redis leaves out those of clusters, rings and sentinels, which start the
// servers of a container.
var goRedis = suite{
	library: "go-redis", version: "v9.23.0", what: "its own: those that need one server", port: "6379",
	// A message and the confirmation of SUNSUBSCRIBE may come in the other order.
	tries: 2,
	fetch: fetchGoRedis, run: runGoRedis, packages: []string{"github.com/redis/go-redis/v9"},
	tests: []string{
		"ACL", "AutoPipeline", "BitCount", "Client ", "Cmd", "Commands", "Conn",
		"Hook", "Monitor", "NewScriptServerSHA", "NoRetry", "PubSub", "RawCmd", "RawWriteToCmd", "ScanIterator", "Tx", "pipelining", "pool", "races",
	},
	allowed: []allowance{
		{whyAbsent, of("go-redis [It] ",
			"AutoPipeline Blocking Commands*", "BitCountBite*", "BitCountByte*",
			"Commands server Should CommandGetKeys", "Commands server should ClientUnblock*", "Commands server should LastSave*", "Commands server should Save*",
			"Commands server should SlaveOf*", "Commands server should ReplicaOf*", "Commands server should filter commands by pattern",
			"Commands keys should Dump", "Commands keys should Migrate*", "Commands keys should Restore*", "Commands keys should Sort*",
			"Commands strings should Bit*", "Commands strings should GetBit", "Commands hyperloglog*",
			"Commands lists should BL*", "Commands lists should BR*", "Commands lists should LCS*", "Commands lists should LMPop*",
			"Commands sorted sets should BZ*", "Commands sorted sets should ZDiff*", "Commands sorted sets should ZInter*", "Commands sorted sets should ZMPop*",
			"Commands sorted sets should ZRangeStore*", "Commands sorted sets should ZUnion*",
			"Commands streams*", "Commands Geo*", "Commands Functions*", "Commands debugging should DebugObject*",
		)},
		{whySwap, of("go-redis [It] ", "Commands server should SwapDB*", "Conn TxPipeline*")},
		{whyOneUser, of("go-redis [It] ", "ACL Categories*", "ACL user commands*", "ACL permissions*", "ACL should ACL LOG*")},
		{whyLarge, of("go-redis [It] ", "Client should handle big vals", "Commands strings should SetFromBuffer and GetToBuffer with 10 MiB payload")},
		{whyScan, of("go-redis [It] ", "Commands scanning should HScan", "Commands scanning should SScan", "Commands scanning should ZScan")},
		{whyFar, of("go-redis [It] ", "Commands keys should PExpireAt beyond the nanosecond timestamp range")},
		{whyIdle, of("go-redis [It] ", "Commands keys should Object*")},
		{"`LATENCY` records no events.", of("go-redis [It] ", "Commands Latency *")},
		{whyKeyFlags, of("go-redis [It] ", "Commands server should CommandGetKeysAndFlags")},
	},
}

func fetchGoRedis(w *workshop, s *suite) error {
	if err := fetchGo(w, s); err != nil {
		return err
	}
	dir, err := w.goRoom(s)
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(dir, "go-redis.test")); err == nil {
		return nil
	}
	return w.install(dir, "go", "test", "-c", "-o", "go-redis.test", s.packages[0])
}

func runGoRedis(ctx context.Context, w *workshop, s *suite, t target) (result, error) {
	dir, err := w.goRoom(s)
	if err != nil {
		return result{}, err
	}
	endpoints := filepath.Join(dir, "endpoints.json")
	if err := os.WriteFile(endpoints, fmt.Appendf(nil, `{"dropin": {"endpoints": ["redis://%s"]}}`, t.addr), 0o644); err != nil {
		return result{}, err
	}
	report := filepath.Join(dir, "report.xml")
	return reported(report, func() ([]byte, error) {
		return w.test(ctx, dir, []string{"RE_CLUSTER=true", "REDIS_VERSION=7.0", "REDIS_ENDPOINTS_CONFIG_PATH=" + endpoints},
			filepath.Join(dir, "go-redis.test"), "-test.run", "TestGinkgoSuite", "-ginkgo.no-color", "-ginkgo.junit-report", report,
			"-ginkgo.focus", "^go-redis ("+strings.Join(s.tests, "|")+")",
			// A goroutine of it outlives it where there is no BLPOP, and ends others.
			"-ginkgo.skip", "races should BLPop")
	})
}
