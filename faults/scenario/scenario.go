package scenario

import (
	"fmt"
	"slices"
	"strings"
)

// Scenario is one way to harm a cluster.
type Scenario struct {
	Name   string
	Doc    string   // what is done, and what must hold
	Modes  []string // of durability, that it is run in
	Rounds int      // how often the harm is done, by default
	Kinds  int      // of harm, done in turn; 0 is one
	Rate   float64  // calls per second, by default

	// Brief is the only mode of a brief run; empty for all.
	Brief string

	// Live is how much liveness the harm may cost.
	Live Live

	// Broken: the system under test is broken on purpose, and one of these checks must say so.
	Broken []string

	run func(*Run) error
}

// Runs reports whether a run of all scenarios has this one in a mode.
func (s *Scenario) Runs(mode string, brief bool) bool {
	return s.supports(mode) && (!brief || s.Brief == "" || s.Brief == mode)
}

func (s *Scenario) supports(mode string) bool { return slices.Contains(s.Modes, mode) }

var both = []string{Async, Sync}

// All are the scenarios, in the order of the report.
var All = []Scenario{
	{
		Name: "calm", Modes: []string{Sync}, Rate: 2000, run: calm,
		Doc: "One server without replication, and no harm: the checks must find nothing.",
		Live: Live{Sync: within(0.001, 0.001, 0.005, 0.3, 0),
			Why: "Nothing is broken."},
	},
	{
		Name: "switchover", Modes: []string{Sync}, Rounds: 2, Rate: 2000, Broken: []string{"budgets"}, run: switchover,
		Doc: "Three independent servers take the place of the cluster, and clients use the first that lives: budgets are handed out twice, and the checks must see this.",
		Live: Live{Sync: within(0.02, 0.01, 0.02, 1, 0.3),
			Why: "A kill costs its server's clients the time to connect to the next."},
	},
	{
		Name: "async-as-sync", Modes: []string{Sync}, Rounds: 4, Kinds: 4, Rate: 3000, Broken: []string{"budgets", "linear", "loss"}, run: asyncAsSync,
		Doc: "Leader kills of an async cluster, judged by the rules of sync: the few decisions that it loses must be seen.",
		Live: Live{Sync: within(0.28, 0.01, 0.06, 2.5, 1.5),
			Why: "As leader-kills."},
	},
	{
		Name: "leader-kills", Modes: both, Rounds: 50, Rate: 6000, run: leaderKills,
		Doc: "Kill the leader again and again (SIGKILL) and start it again. sync: nothing is admitted beyond a limit, and every answer fits one order of the calls. async: the loss of each kill stays within the bound for async.",
		Live: Live{Async: within(0.26, 0.005, 0.04, 2.5, 1.5), Sync: within(0.28, 0.01, 0.06, 2.5, 1.5),
			Why: "An election takes 0.6 to 1.4 s of each round of about 5 s, in which `closed` refuses."},
	},
	{
		Name: "leader-kills-free", Modes: []string{Sync}, Rounds: 10, Rate: 2000, run: leaderKillsFree,
		Doc: "Kill the leader as in leader-kills, over keys that are refunded, reset, and called with changing limits: every answer fits one order of the calls.",
		Live: Live{Sync: within(0.3, 0.01, 0.06, 2.5, 1.6),
			Why: "As leader-kills."},
	},
	{
		Name: "commands", Modes: both, Rounds: 6, Rate: 3000, run: commands,
		Doc: "Kill the leader as in leader-kills, with every command that changes state: all algorithms, `DEBT`, `WAIT`, `ATMOST`, `INCREX`, `CL.THROTTLE`, `THROTTLE`, `GCRA`, `DEL`, `EXEC`, commands on Redis's types, scripts, and a `FLUSHALL` under load. A key that a counter models must be exact, any other key must stay within its bound. Nobody ever sees half a transaction or half a script.",
		Live: Live{Async: within(0.28, 0.006, 0.05, 2.5, 1.6), Sync: within(0.3, 0.02, 0.08, 2.5, 1.6),
			Why: "As leader-kills; the flush holds replies up."},
	},
	{
		Name: "billing", Modes: both, Rounds: 12, Rate: 1000, run: billing,
		Doc: "Kill leaders while clients bill: checks with a name and holds of a policy with `algorithm: log`, `durability: sync` and `on_failure: closed`, made again on whatever node until they are answered. Each is charged once, and answered the same.",
		Live: Live{Async: within(0.26, 0.005, 0.04, 2.5, 1.5), Sync: within(0.28, 0.01, 0.06, 2.5, 1.5),
			Why: "As leader-kills."},
	},
	{
		Name: "billed-twice", Modes: []string{Sync}, Rounds: 1, Rate: 1000, Broken: []string{"bills"}, run: billedTwice,
		Doc: "The same with an executable that knows no call again: what is charged twice must be seen.",
		Live: Live{Sync: within(0.28, 0.01, 0.06, 2.5, 1.5),
			Why: "As leader-kills."},
	},
	{
		Name: "eviction", Modes: []string{Async}, Rounds: 3, Rate: 1500, run: eviction,
		Doc: "Kill leaders of a cluster that evicts, with 200 000 keys and a `maxmemory` of 8 MB: it stays within that, and all nodes keep the same keys.",
		Live: Live{Async: within(0.28, 0.006, 0.05, 2.5, 1.6),
			Why: "As leader-kills."},
	},
	{
		Name: "go-redis", Modes: both, Rounds: 10, Kinds: 4, Rate: 1500, run: goRedisKills,
		Doc: "Kill leaders under the load of real clients without retries, go-redis's cluster client, its sentinel client and plain ones: the same must hold, and each kind gets decisions again within 2 s (median), 3 s (p90).",
		Live: Live{Async: within(0.32, 0.01, 0.06, 2.5, 1.6), Sync: within(0.32, 0.01, 0.06, 2.5, 1.6),
			Why: "As leader-kills; clients find the new leader up to half a second later."},
	},
	{
		Name: "five-nodes", Modes: both, Brief: Sync, Rounds: 6, Rate: 2500, run: fiveNodes,
		Doc: "Kill the leader and a follower of five nodes, which speak TLS with each other, at once: the other three go on.",
		Live: Live{Async: within(0.28, 0.008, 0.06, 2.6, 1.6), Sync: within(0.30, 0.015, 0.10, 2.6, 1.6),
			Why: "As leader-kills, with seven processes on the same processors."},
	},
	{
		Name: "wiped", Modes: both, Brief: Sync, Rounds: 2, Rate: 2500, run: wiped,
		Doc: "Wipe a follower, which gets a snapshot, and kill the leader as soon as the follower votes again; it leads next: nothing is lost that others knew.",
		Live: Live{Async: within(0.08, 0.006, 0.03, 2.4, 1.5), Sync: within(0.09, 0.01, 0.05, 2.4, 1.5),
			Why: "An election in each round of about 15 s."},
	},
	{
		Name: "members", Modes: both, Brief: Sync, Rounds: 3, Kinds: 3, Rate: 2500, run: members,
		Doc: "Exchange all nodes under load, one after the other: join and remove a follower, join and remove the leader, replace a dead one. Nothing is lost in either mode.",
		Live: Live{Async: within(0.01, 0.01, 0.03, 0.6, 0.2), Sync: within(0.01, 0.01, 0.05, 0.6, 0.2),
			Why: "Leaders hand over, for which calls wait."},
	},
	{
		Name: "foundings", Modes: []string{Sync}, Rounds: 10, run: foundings,
		Doc: "Start nodes for the first time at random times within a second, again and again: each time one cluster results, with all of them.",
	},
	{
		Name: "all-killed", Modes: both, Rounds: 2, Rate: 4000, run: allKilled,
		Doc: "Kill all nodes at once and start them 10 s later: sync nothing lost, async within the bound, and a bucket has gained what came back meanwhile.",
		Live: Live{Async: within(0.002, 0.002, 0.02, 14, 2), Sync: within(0.002, 0.002, 0.03, 14, 2),
			Why: "All nodes are down for 10 s. This time does not count. Then they elect a leader within 2 s."},
	},
	{
		Name: "rolling-restart", Modes: both, Rounds: 1, Rate: 1000, run: rollingRestart,
		Doc: "Restart every node in turn (SIGTERM) while quotas of 1000, half used, are used up: none is exceeded, in either mode, and all are handed out.",
		Live: Live{Async: within(0.001, 0.001, 0.01, 0.3, 0.1), Sync: within(0.001, 0.001, 0.02, 0.3, 0.1),
			Why: "A handover takes some 20 ms, for which calls wait; no call is refused."},
	},
	{
		Name: "partition-leader", Modes: both, Rounds: 6, Kinds: 2, Rate: 4000, run: partitionLeader,
		Doc: "Cut the leader off from both others, in turn by silence and by closed connections: it stops admitting, and another takes over.",
		Live: Live{Async: within(0.29, 0.06, 0.04, 1.6, 0.1), Sync: within(0.34, 0.03, 0.06, 2.6, 2.2),
			Why: "A third of the clients is cut off for 4 s of each round. That is some 80 % of the time with load, because the load pauses while tables are compared. In async the old leader answers for another 0.25 s. In sync nobody answers until there is a new leader."},
	},
	{
		Name: "deposed", Modes: both, Rounds: 4, Rate: 2000, run: deposed,
		Doc: "Cut the leader off while it is given charges, refunds, resets and another limit, and changes of values of every type, which never commit: the next leader knows nothing of them, no unit is given twice, and the old one has forgotten them when it leads again.",
		Live: Live{Async: within(0.24, 0.04, 0.07, 1.6, 0.1), Sync: within(0.36, 0.04, 0.06, 2.6, 2.2),
			Why: "As partition-leader."},
	},
	{
		Name: "partition-follower", Modes: both, Rounds: 3, Rate: 4000, run: partitionFollower,
		Doc: "Cut a follower off from both others: the majority goes on.",
		Live: Live{Async: within(0.2, 0.006, 0.02, 0.3, 0.1), Sync: within(0.2, 0.006, 0.04, 0.3, 0.1),
			Why: "The clients of the follower, a third of all clients, are refused while it is cut off. The others notice nothing."},
	},
	{
		Name: "partition-link", Modes: both, Rounds: 3, Rate: 4000, run: partitionLink,
		Doc: "Cut the link between the leader and one follower, while both reach the third node.",
		Live: Live{Async: within(0.24, 0.02, 0.04, 1.8, 0.1), Sync: within(0.24, 0.02, 0.06, 1.8, 0.1),
			Why: "As partition-follower; the leader may change if the follower forces it."},
	},
	{
		Name: "partition-asym", Modes: both, Rounds: 6, Kinds: 3, Rate: 4000, run: partitionAsym,
		Doc: "Lose what goes one way: the leader hears nobody, or nobody hears it, or one follower does not.",
		Live: Live{Async: within(0.3, 0.03, 0.06, 2.2, 0.1), Sync: within(0.32, 0.03, 0.06, 2.6, 1.8),
			Why: "As partition-leader, in two of three rounds."},
	},
	{
		Name: "slow-links", Modes: both, Rounds: 2, Rate: 2000, run: slowLinks,
		Doc: "Delay everything between the nodes by 20 ms each way.",
		Live: Live{Async: within(0.01, 0.01, 0.42, 0.3, 0.1), Sync: within(0.01, 0.32, 0.5, 0.6, 0.3),
			Why: "Two thirds of the calls are forwarded, which takes 40 ms there and back. In sync the commit takes another 40 ms, and the call often takes more than `forward-timeout`."},
	},
	{
		Name: "pause", Modes: both, Rounds: 4, Rate: 2000, run: pause,
		Doc: "Stop the leader's process for 5 s (SIGSTOP), as a long pause of a virtual machine does: it must not go on deciding.",
		Live: Live{Async: within(0.14, 0.01, 0.04, 2.2, 1.5), Sync: within(0.16, 0.01, 0.05, 2.2, 1.5),
			Why: "An election in each round of about 9 s."},
	},
	{
		Name: "torn-log", Modes: both, Rounds: 4, Kinds: 2, Rate: 3000, run: tornLog,
		Doc: "Kill a node and damage its log: a torn last write heals by itself; half a log ends the node with a message until its data is wiped.",
		Live: Live{Async: within(0.06, 0.006, 0.03, 2.2, 1.5), Sync: within(0.07, 0.006, 0.05, 2.2, 1.5),
			Why: "There is an election in half of the rounds. A round lasts up to 30 s, until the node votes again."},
	},
	{
		Name: "full-disk", Modes: both, Rounds: 2, Rate: 4000, run: fullDisk,
		Doc: "Fill the leader's disk up: it gives up leadership and does not take it again, and comes back when there is room (needs root, to mount file systems).",
		Live: Live{Async: within(0.08, 0.012, 0.05, 2.2, 0.1), Sync: within(0.09, 0.012, 0.12, 2.2, 0.1),
			Why: "There is an election in each round of about 15 s. Sync calls wait for it instead of being refused. The leader goes on until the disk is full."},
	},
	{
		Name: "slow-disk", Modes: both, Rounds: 1, Rate: 2000, run: slowDisk,
		Doc: "Slow down every fsync of a follower, then of the leader, by 40 ms; at last the leader's disk hangs: decisions wait no longer than for the leader's own writes, no elections but for the hang, which another leader ends.",
		Live: Live{Async: within(0.3, 0.02, 0.1, 13, 0.1), Sync: within(0.34, 0.02, 0.6, 13, 12),
			Why: "A sync decision waits for slow disks, 40 ms per write. A leader whose disk hangs is replaced after 10 s."},
	},
	{
		Name: "power-loss", Modes: both, Rounds: 4, Kinds: 2, Rate: 2000, run: powerLoss,
		Doc: "Take the power from all nodes at once, then from the leader: what was not synced is gone, all of it or any sectors, sizes and names, in data directories that are new. Every node starts by itself; sync nothing lost, and a finished snapshot is still there.",
		Live: Live{Async: within(0.3, 0.06, 0.3, 3, 2), Sync: within(0.3, 0.03, 0.25, 3, 2),
			Why: "There is an election in each round of about 4 s, in half of the rounds after all nodes were down. Clients connect again."},
	},
	{
		Name: "io-errors", Modes: both, Rounds: 3, Kinds: 3, Rate: 2000, run: ioErrors,
		Doc: "Let an fsync of the leader fail once, then a write of a follower: the node ends, starts again while the system shows what the disk does not have, and then loses power. A node that cannot read its disk says so and ends.",
		Live: Live{Async: within(0.2, 0.03, 0.15, 2.5, 1.6), Sync: within(0.2, 0.03, 0.12, 2.5, 1.6),
			Why: "There are one or two elections in three rounds, each of a few seconds."},
	},
	{
		Name: "bit-rot", Modes: both, Rounds: 3, Kinds: 3, Rate: 2000, run: bitRot,
		Doc: "Kill a follower and flip a bit of its term and vote, of a snapshot, and of its log: it repairs that, or says so and ends until its data is wiped.",
		Live: Live{Async: within(0.01, 0.01, 0.04, 1, 0), Sync: within(0.02, 0.01, 0.06, 1, 0),
			Why: "Followers are killed. Now and then machines with little processor time elect a leader."},
	},
	{
		Name: "upgrade", Modes: both, Rounds: 1, Rate: 1000, run: upgrade,
		Doc: "Upgrade node by node to an executable that knows newer versions of effects, log entries and snapshots, and kill leaders of both on the way: no node ends, and the newer versions are written only when the last node can read them. Then a node that goes back ends and says so, every time, is not taken in without its data, and goes on when it is upgraded.",
		Live: Live{Async: within(0.25, 0.02, 0.06, 2.5, 1.5), Sync: within(0.28, 0.02, 0.08, 2.5, 1.5),
			Why: "Calls wait for handovers, and for elections after leaders were killed. Calls to nodes that end do not count."},
	},
	{
		Name: "snapshot-join", Modes: []string{Async}, Rounds: 1, Rate: 2000, run: snapshotJoin,
		Doc: "Write a snapshot of a million keys under load, let a fourth node join by it, and restart it: no decision waits, and the tables are equal.",
		Live: Live{Async: within(0.002, 0.002, 0.01, 0.3, 0.1),
			Why: "Clients notice nothing."},
	},
	{
		Name: "transfers", Modes: both, Rounds: 6, Kinds: 2, Rate: 2000, run: transfers,
		Doc: "Move units between keys with chains (+1 AND -1) under leader kills: the sum is the same at every moment.",
		Live: Live{Async: within(0.28, 0.008, 0.04, 2.2, 1.5), Sync: within(0.28, 0.01, 0.06, 2.4, 1.5),
			Why: "As leader-kills."},
	},
	{
		Name: "slots", Modes: both, Rounds: 4, Kinds: 2, Rate: 1000, run: slots,
		Doc: "Acquire and release concurrency slots under leader kills: no key has more slots taken than its limit.",
		Live: Live{Async: within(0.28, 0.008, 0.04, 2.2, 1.5), Sync: within(0.28, 0.01, 0.06, 2.4, 1.5),
			Why: "As leader-kills."},
	},
	{
		Name: "leases", Modes: both, Rounds: 10, Kinds: 10, Rate: 500, run: leases,
		Doc: "Processes with [leases](leases.md) hold back and spend all at once. Kill, stop and cut off one of them; kill and stop the leader; restart every node; let one lead that has nothing but a snapshot; reset, lower and delete the limit, in turn: nothing is admitted beyond it but what is stated, no unit is held that the server does not know of, and holders whose limit has room notice nothing.",
		Live: Live{Async: within(0.1, 0.01, 0.05, 2.5, 1.6), Sync: within(0.1, 0.015, 0.08, 2.5, 1.6),
			Why: "A leader is lost in two of ten rounds."},
	},
	{
		Name: "leases-policy", Modes: both, Rounds: 4, Kinds: 4, Rate: 200, run: leasesOfPolicy,
		Doc: "Processes with leases of a policy, and of fixed and sliding windows, hold back and spend all at once. Lower and raise the policy's shared limit while units are out, kill a holder, lower and raise it again just before the leader is killed, kill the leader, in turn: nothing is admitted beyond the old limit for as long as its blocks last, then nothing beyond the new one, nothing beyond a window, and blocks end with their window.",
		Live: Live{Async: within(0.1, 0.01, 0.05, 2.5, 1.6), Sync: within(0.1, 0.015, 0.08, 2.5, 1.6),
			Why: "As leases."},
	},
	{
		Name: "leases-textbook", Modes: []string{Sync}, Rounds: 1, Rate: 500, Broken: []string{"leases"}, run: textbookLeases,
		Doc: "The same with blocks that leave no room behind in the limit, as in textbooks: what is admitted too much must be seen.",
		Live: Live{Sync: within(0.01, 0.01, 0.05, 0.5, 0.1),
			Why: "A client is killed, which calls do not notice."},
	},
	{
		Name: "local", Modes: []string{Async}, Rounds: 6, Kinds: 3, Rate: 1200, run: local,
		Doc: "With on-failure local: cut all nodes from each other, kill two of three, cut one off from the others, in turn: none admits more than its share, and once healed, also when that is interrupted, what was admitted is charged once.",
		Live: Live{Async: within(0.15, 0.03, 0.02, 14, 13),
			Why: "Gaps are made to last; limits of 2 that another node has, and exhausted shares that only a leader may judge, are refused in them."},
	},
	{
		Name: "open-as-local", Modes: []string{Async}, Rounds: 1, Rate: 1200, Broken: []string{"shares", "charged"}, run: openAsLocal,
		Doc: "The same with on-failure open, judged by the rules of local: what is admitted beyond the shares, and never charged, must be seen.",
		Live: Live{Async: within(0.15, 0.03, 0.02, 14, 13),
			Why: "As local."},
	},
	{
		Name: "local-kills", Modes: []string{Async}, Rounds: 6, Rate: 2000, run: localKills,
		Doc: "Kill the leader with on-failure local: clients of surviving nodes get no error at all, and every answer within 150 ms; gateways, over HTTP and gRPC, 99 of 100.",
		Live: Live{Async: within(0.002, 0.002, 0.005, 2.2, 1.5),
			Why: "Shares answer: no call is refused, and none waits."},
	},
	{
		Name: "availability", Modes: []string{Async}, Rounds: 16, Kinds: 8, Rate: 2000, run: availability,
		Doc: "All kinds of harm in turn, with the default parameters: surviving nodes answer 99.99 % of all calls within 20 ms.",
		Live: Live{Async: within(0.0005, 0.0005, 0.002, 2.4, 1.5),
			Why: "Shares answer. The goal itself is a check of its own."},
	},
	{
		Name: "clocks", Modes: both, Rounds: 1, Rate: 1000, run: clocks,
		Doc: "The nodes' clocks run wrong by 500 ppm either way, and their wall clocks are an hour ahead and an hour behind. Each leads in turn while its wall clock steps by 5 s both ways; one leads for 30 s while its clock runs slow and is slewed down, and is killed; all wall clocks are set an hour ahead while all nodes are down. The limits' clock jumps forward by no more than a reading is off (1 ms), and back by no more than 10 ms for each change of leaders.",
		Live: Live{Async: within(0.03, 0.01, 0.02, 6.5, 1.5), Sync: within(0.04, 0.01, 0.04, 6.5, 1.5),
			Why: "Handovers, elections, and all nodes down for 3 s."},
	},
}

// Table describes the scenarios in Markdown.
func Table() string {
	var b strings.Builder
	b.WriteString("| scenario | modes | rounds, with `-brief` | |\n|---|---|---|---|\n")
	for i := range All {
		s := &All[i]
		rounds := ""
		if s.Rounds > 0 {
			rounds = fmt.Sprintf("%d, %d", s.Rounds, s.rounds(true))
		}
		modes := strings.Join(s.Modes, ", ")
		if s.Brief != "" {
			modes += " (`-brief`: " + s.Brief + ")"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", s.Name, modes, rounds, s.Doc)
	}
	return b.String()
}

// rounds is how often the harm is done by default.
func (s *Scenario) rounds(brief bool) int {
	if brief {
		return max(s.Rounds/3, min(s.Rounds, s.Kinds), min(s.Rounds, 1))
	}
	return s.Rounds
}

// Find returns the scenario of that name, or nil.
func Find(name string) *Scenario {
	for i := range All {
		if All[i].Name == name {
			return &All[i]
		}
	}
	return nil
}
