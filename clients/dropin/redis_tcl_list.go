package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// tclReason is why Headgate does not pass some of Redis's tests.
type tclReason struct {
	why string
	// absent are commands that Headgate does not have and the tests take. They are
	// not run, and none of the commands may be there.
	absent []string
	// harms is whether the tests are not run since one that fails spoils later
	// ones, or waits for ever.
	harms bool
	// tests are by unit, by name, or by a pattern after a slash.
	tests map[string][]string
}

var tclReasons = []tclReason{
	{
		why: "There are no blocking pops.", absent: []string{"blpop", "brpop", "blmove", "brpoplpush", "blmpop", "bzpopmin", "bzpopmax", "bzmpop"},
		tests: map[string][]string{
			"type/list": {"/^(BLPOP|BRPOP|BLMOVE|BLMPOP_|BLMPOP with)", "client unblock tests", "LPOP/RPOP/LMPOP NON-BLOCK or BLOCK against non list value",
				"/^MULTI/EXEC is isolated from the point of view of BL", "/^(Linked LMOVEs|Circular|Self-referential)", "SWAPDB awakes blocked client",
				"PUSH resulting from BRPOPLPUSH affect WATCH"},
			"type/zset":       {"/^BZ(POP|MPOP_|MPOP (readraw|should|with))", "/^MULTI/EXEC is isolated from the point of view of BZ"},
			"introspection-2": {"command stats for BRPOP"},
			"scripting":       {"/^EVAL - Scripts can't run (blpop|brpop|brpoplpush|blmove|bzpopmin|bzpopmax) command"},
			"pause":           {"Test write commands are paused by RO"},
		},
	},
	{
		why: "There is no LMPOP and no ZMPOP.", absent: []string{"lmpop", "zmpop"},
		tests: map[string][]string{
			"type/list": {"/^LMPOP (with|single|multiple)", "/^Basic LPOP/RPOP/LMPOP", "LPOP/RPOP/LMPOP against empty list"},
			"type/zset": {"/^(Basic |ZPOP.)?ZMPOP(_| against| with| readraw)"},
		},
	},
	{
		why:    "There are no unions, intersections and differences of sorted sets, and no stored ranges.",
		absent: []string{"zunion", "zinter", "zintercard", "zdiff", "zunionstore", "zinterstore", "zdiffstore", "zrangestore"},
		tests: map[string][]string{
			"type/zset": {"/^(ZUNION|ZINTER|ZDIFF|ZRANGESTORE|ZREMRANGEBYLEX fuzzy|zunionInterDiff)", "ZMSCORE retrieve single member",
				"ZRANGE BYSCORE REV LIMIT", "ZRANGE BYLEX" /* on what ZRANGESTORE leaves */},
			"introspection-2": {"COMMAND GETKEYS MORE THAN 256 KEYS", "ZUNIONSTORE command is marked with movablekeys"},
		},
	},
	{
		why: "There are no bitmaps.", absent: []string{"setbit", "getbit"},
		tests: map[string][]string{"type/string": {"/^(SETBIT|GETBIT)"}},
	},
	{
		why: "There is no LCS.", absent: []string{"lcs"},
		tests: map[string][]string{"type/string": {"/^LCS"}, "introspection-2": {"COMMAND GETKEYS LCS"}},
	},
	{
		why: "There is no DUMP, RESTORE and MIGRATE.", absent: []string{"dump", "restore", "migrate"},
		tests: map[string][]string{
			"type/hash":       {"/^Hash ziplist of various encodings"},
			"type/list":       {"/^List ziplist of various encodings"},
			"introspection-2": {"MIGRATE command is marked with movablekeys"},
		},
	},
	{
		why: "There are no streams.", absent: []string{"xadd", "xgroup", "xread"},
		tests: map[string][]string{
			"keyspace":        {"/^COPY basic usage for stream", "/^MOVE (basic usage|against key existing)" /* on what those leave */},
			"introspection-2": {"COMMAND GETKEYS XGROUP", "XREAD command is marked with movablekeys"},
			"multi":           {"Blocking commands ignores the timeout"},
			"scripting":       {"EVAL - Scripts can't run XREAD and XREADGROUP with BLOCK option"},
		},
	},
	{
		why: "There are no commands of geography.", absent: []string{"geoadd", "georadius"},
		tests: map[string][]string{
			"introspection-2": {"/for GEOADD$", "command stats for MULTI", "command stats for scripts", "GEORADIUS command is marked with movablekeys"},
			"slowlog":         {"SLOWLOG - Rewritten commands are logged as their original command"},
		},
	},
	{
		why: "There is no HyperLogLog.", absent: []string{"pfadd"},
		tests: map[string][]string{"pause": {"Test special commands are paused by RO"}},
	},
	{
		why: "There is no SORT.", absent: []string{"sort", "sort_ro"},
		tests: map[string][]string{
			"multi":           {"EXEC fail on WATCHed key modified by SORT with STORE even if the result is empty"},
			"scripting":       {"/^SORT "},
			"introspection-2": {"/^SORT(_RO)? command is marked with movablekeys", "COMMAND GETKEYSANDFLAGS"},
		},
	},
	{
		why: "There are no functions.", absent: []string{"fcall"},
		tests: map[string][]string{"introspection": {"MONITOR can log commands issued by functions"}, "pause": {"Test RO scripts are not blocked by pause RO"}},
	},
	{
		why: "There is no CLUSTER RESET.", absent: []string{"cluster|reset"},
		tests: map[string][]string{"scripting": {"CLUSTER RESET can not be invoke from within a script"}},
	},
	{
		why: "There is no SAVE.", absent: []string{"save"},
		tests: map[string][]string{"multi": {"MULTI with SAVE"}},
	},
	{
		why: "maxmemory is at least 1 MiB; these set it to a byte, and then stay in a transaction.", harms: true,
		tests: map[string][]string{"multi": {
			"EXEC fails if there are errors while queueing commands #2", "DISCARD should not fail during OOM",
			"EXEC with only read commands should not be rejected when OOM", "EXEC with at least one use-memory command should fail",
		}},
	},
	{
		why: "maxmemory is at least 1 MiB; these set it to a byte.",
		tests: map[string][]string{"scripting": {
			"Script - disallow write on OOM", "allow-oom shebang flag", "reject script do not cause a Lua stack leak", "Consistent eval error reporting",
		}},
	},
	{
		why:   "SWAPDB says that it is not supported; these then watch keys.",
		harms: true,
		tests: map[string][]string{"multi": {"/^SWAPDB is able to touch the watched keys that"}},
	},
	{
		why: "DEBUG SLEEP is refused in MULTI; this then stays in the transaction.", harms: true,
		tests: map[string][]string{"slowlog": {"SLOWLOG - EXEC is not logged, just executed commands"}},
	},
	{
		why: "A value has at most 1 MiB.",
		tests: map[string][]string{
			"type/string": {"Very big payload in GET/SET", "SETRANGE with out of range offset", "SETRANGE with huge offset"},
			"type/list-3": {"ziplist implementation: value encoding and backlink"},
		},
	},
	{
		why: "A slow script holds up nobody: others get no BUSY, and lua-time-limit ends it.",
		tests: map[string][]string{
			"multi": {"MULTI and script timeout", "EXEC and script timeout", "MULTI-EXEC body and script timeout", "just EXEC and script timeout"},
			"scripting": {"/^Timedout read-only scripts can be killed by SCRIPT KILL", "Timedout script does not cause a false dead client",
				"Timedout script link is still usable after Lua returns"},
		},
	},
	{
		why:   "The time of the last access is not kept.",
		tests: map[string][]string{"introspection-2": {"TTL, TYPE and EXISTS do not alter the last access time of a key", "TOUCH alters the last access time of a key"}},
	},
	{
		why:   "A client's buffers are not told.",
		tests: map[string][]string{"introspection": {"CLIENT LIST", "CLIENT INFO"}},
	},
	{
		why: "A script that declares no-writes waits, too, while CLIENT PAUSE holds up writes.", harms: true,
		tests: map[string][]string{"pause": {"Test read-only scripts in mutli-exec are not blocked by pause RO"}},
	},
	{
		why:   "Keys expire while CLIENT PAUSE holds up writes; this then leaves the server paused.",
		harms: true,
		tests: map[string][]string{"pause": {"Test both active and passive expires are skipped during client pause"}},
	},
	{
		why:   "No keyspace notifications are published.",
		tests: map[string][]string{"pubsub": {"/^Keyspace notifications"}},
	},
	{
		why: "CONFIG has not all of Redis's parameters, and may not change the port.",
		tests: map[string][]string{"introspection": {
			"CONFIG SET with multiple args", "CONFIG SET rollback on apply error", "CONFIG GET hidden configs", "CONFIG GET multiple args",
		}},
	},
	{
		why:   "An error says of a percentage above 100 that it is no memory value.",
		tests: map[string][]string{"introspection": {"CONFIG SET rollback on set error"}},
	},
	{
		why:   "There is no min-replicas-to-write.",
		tests: map[string][]string{"scripting": {"not enough good replicas"}},
	},
	{
		why:   "There are no users of one's own.",
		tests: map[string][]string{"scripting": {"Script ACL check"}},
	},
	{
		why:   "string.dump is there and refuses; in Redis what loads its result does.",
		tests: map[string][]string{"scripting": {"Binary code loading failed"}},
	},
}

// tclEntry is a line of the list for a unit.
type tclEntry struct {
	*tclReason
	test string
}

// out reports whether the tests are left out.
func (e tclEntry) out() bool { return e.harms || e.absent != nil }

// names reports whether the entry names a test, as the suite's --skiptest does.
func (e tclEntry) names(test string) bool {
	if pattern, ok := strings.CutPrefix(e.test, "/"); ok {
		return regexp.MustCompile(pattern).MatchString(test)
	}
	return e.test == test
}

// listOf returns what is listed of a unit.
func listOf(unit string) []tclEntry {
	var list []tclEntry
	for i := range tclReasons {
		for _, test := range tclReasons[i].tests[unit] {
			list = append(list, tclEntry{&tclReasons[i], test})
		}
	}
	return list
}

// absences are the commands that a list says are absent.
func absences(list []tclEntry) []string {
	var names []string
	for _, e := range list {
		names = append(names, e.absent...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// number is what readTcl appends to a name that was there before.
var number = regexp.MustCompile(` \(\d+\)$`)

// wrongOf compares a unit's list with a run: what failed and is not listed, what
// is listed and passed, and what names no test.
func wrongOf(unit string, list []tclEntry, ran result) (wrong []string) {
	used := make([]bool, len(list))
	named := func(full string) bool {
		test := number.ReplaceAllString(strings.TrimPrefix(full, unit+": "), "")
		found := false
		for i, e := range list {
			if e.names(test) {
				used[i], found = true, true
			}
		}
		return found
	}
	for _, test := range slices.Concat(ran.failed, ran.skipped) {
		if !named(test) {
			wrong = append(wrong, test+": it fails, and is not listed")
		}
	}
	for _, test := range ran.passed {
		if named(test) {
			wrong = append(wrong, test+": it passes, and is listed")
		}
	}
	for i, e := range list {
		if !used[i] {
			wrong = append(wrong, fmt.Sprintf("%s: %s is listed, and is no test", unit, e.test))
		}
	}
	return wrong
}
