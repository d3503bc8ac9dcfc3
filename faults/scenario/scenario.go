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

// killsLive are the bounds of leader-kills.
var killsLive = Live{Async: within(0.26, 0.005, 0.04, 2.5, 1.5), Sync: within(0.28, 0.01, 0.06, 2.5, 1.5),
	Why: "A round takes about 5 s. For 0.6 to 1.4 s of it the nodes elect a leader, and `closed` refuses all calls."}

// partitionLive are the bounds of partition-leader.
var partitionLive = Live{Async: within(0.29, 0.06, 0.04, 1.6, 0.1), Sync: within(0.34, 0.03, 0.06, 2.6, 2.2),
	Why: "A third of the clients is cut off for 4 s of each round. That is some 80 % of the time with load, because the load pauses while tables are compared. In async the old leader answers for another 0.25 s. In sync nobody answers until there is a new leader."}

// All are the scenarios, in the order of the report.
var All = []Scenario{
	{
		Name: "calm", Modes: []string{Sync}, Rate: 2000, run: calm,
		Doc: "One server without replication, and no harm. The checks must find nothing.",
		Live: Live{Sync: within(0.001, 0.001, 0.005, 0.3, 0),
			Why: "Nothing is broken."},
	},
	{
		Name: "switchover", Modes: []string{Sync}, Rounds: 2, Rate: 2000, Broken: []string{"budgets"}, run: switchover,
		Doc: "Three independent servers take the place of the cluster, and clients use the first that lives. So each server hands out the same budgets again. The checks must see this.",
		Live: Live{Sync: within(0.02, 0.01, 0.02, 1, 0.3),
			Why: "After a kill, the clients of that server connect to the next one."},
	},
	{
		Name: "async-as-sync", Modes: []string{Sync}, Rounds: 4, Kinds: 4, Rate: 3000, Broken: []string{"budgets", "linear", "loss"}, run: asyncAsSync,
		Doc: "Kill leaders of an async cluster, and judge the answers by the rules of sync. The checks must see the few decisions that async loses.",
		Live: Live{Sync: within(0.28, 0.01, 0.06, 2.5, 1.5),
			Why: "As leader-kills."},
	},
	{
		Name: "leader-kills", Modes: both, Rounds: 50, Rate: 6000, run: leaderKills,
		Doc:  "Kill the leader (SIGKILL) and start it again, many times. With sync no limit is exceeded, and one order of the calls explains every answer. With async the loss of each kill stays within its bound.",
		Live: killsLive,
	},
	{
		Name: "one-node-lost", Modes: both, Rounds: 3, Kinds: 3, Rate: 1000, run: oneNodeLost,
		Doc: "Kill each node of a cluster with 12 groups in turn, and start it again. Keys of groups that the node did not lead see no error, and 99.9 % of their calls are answered within 50 ms. Its own groups elect leaders as in leader-kills. Within a minute, the leaders are spread over all nodes again.",
		Live: Live{Async: within(0.26, 0.01, 0.06, 2.5, 1.5), Sync: within(0.28, 0.02, 0.1, 2.5, 1.5),
			Why: "As leader-kills."},
	},
	{
		Name: "leader-kills-free", Modes: []string{Sync}, Rounds: 10, Rate: 2000, run: leaderKillsFree,
		Doc: "Kill the leader as in leader-kills. The load refunds and resets keys, and changes their limits. One order of the calls explains every answer.",
		Live: Live{Sync: within(0.3, 0.01, 0.06, 2.5, 1.6),
			Why: "As leader-kills."},
	},
	{
		Name: "commands", Modes: both, Rounds: 6, Rate: 3000, run: commands,
		Doc: "Kill the leader as in leader-kills, under a load of every command that changes state: all algorithms, `DEBT`, `WAIT`, `ATMOST`, `INCREX`, `CL.THROTTLE`, `THROTTLE`, `GCRA`, `DEL`, `EXEC`, commands on Redis's types, scripts, and a `FLUSHALL`. If a plain counter can predict a key, the key must be exact. Every other key must stay within its bound. Nobody ever sees half a transaction or half a script.",
		Live: Live{Async: within(0.28, 0.006, 0.05, 2.5, 1.6), Sync: within(0.3, 0.02, 0.08, 2.5, 1.6),
			Why: "As leader-kills. In addition, replies wait for the flush."},
	},
	{
		Name: "billing", Modes: both, Rounds: 12, Rate: 1000, run: billing,
		Doc: "Kill leaders while clients bill: they send checks with an `ID`, and holds, of a policy with `algorithm: log`, `durability: sync` and `on_failure: closed`. A client repeats a call at any node until it gets an answer. Each call is charged once, and each repeat gets the same answer.",
		Live: Live{Async: within(0.26, 0.005, 0.04, 2.5, 1.5), Sync: within(0.28, 0.01, 0.06, 2.5, 1.5),
			Why: "As leader-kills."},
	},
	{
		Name: "billed-twice", Modes: []string{Sync}, Rounds: 1, Rate: 1000, Broken: []string{"bills"}, run: billedTwice,
		Doc: "As billing, with an executable that forgets each `ID`. The checks must see the calls that are charged twice.",
		Live: Live{Sync: within(0.28, 0.01, 0.06, 2.5, 1.5),
			Why: "As leader-kills."},
	},
	{
		Name: "eviction", Modes: []string{Async}, Rounds: 3, Rate: 1500, run: eviction,
		Doc: "Kill leaders of a cluster that evicts, with 200 000 keys and a `maxmemory` of 8 MB. Each node stays within `maxmemory`, and all nodes keep the same keys.",
		Live: Live{Async: within(0.28, 0.006, 0.05, 2.5, 1.6),
			Why: "As leader-kills."},
	},
	{
		Name: "go-redis", Modes: both, Rounds: 10, Kinds: 4, Rate: 1500, run: goRedisKills,
		Doc: "Kill leaders under the load of go-redis without retries: its cluster client, its sentinel client and plain clients. The rules of leader-kills hold. Each kind of client gets decisions again within 2 s (median) and 3 s (p90).",
		Live: Live{Async: within(0.32, 0.01, 0.06, 2.5, 1.6), Sync: within(0.32, 0.01, 0.06, 2.5, 1.6),
			Why: "As leader-kills. Clients find the new leader up to half a second later."},
	},
	{
		Name: "five-nodes", Modes: both, Brief: Sync, Rounds: 6, Rate: 2500, run: fiveNodes,
		Doc: "Five nodes speak TLS with each other. Kill the leader and a follower at once. The other three go on.",
		Live: Live{Async: within(0.28, 0.008, 0.06, 2.6, 1.6), Sync: within(0.30, 0.015, 0.10, 2.6, 1.6),
			Why: "As leader-kills, with seven processes on the same processors."},
	},
	{
		Name: "wiped", Modes: both, Brief: Sync, Rounds: 2, Rate: 2500, run: wiped,
		Doc: "Delete the data of a follower. It gets a snapshot. Kill the leader as soon as that follower votes again, so that the follower leads next. Nothing is lost that other nodes knew.",
		Live: Live{Async: within(0.08, 0.006, 0.03, 2.4, 1.5), Sync: within(0.09, 0.01, 0.05, 2.4, 1.5),
			Groups: &killsLive, Why: "There is an election in each round of about 15 s."},
	},
	{
		Name: "members", Modes: both, Brief: Sync, Rounds: 3, Kinds: 3, Rate: 2500, run: members,
		Doc: "Exchange all nodes under load, one after the other: join and remove a follower, join and remove the leader, replace a dead node. Nothing is lost in either mode.",
		Live: Live{Async: within(0.01, 0.01, 0.03, 0.6, 0.2), Sync: within(0.01, 0.01, 0.05, 0.6, 0.2),
			Why: "Calls wait while leaders hand over."},
	},
	{
		Name: "foundings", Modes: []string{Sync}, Rounds: 10, run: foundings,
		Doc: "Start nodes for the first time, at random times within a second, again and again. Each time all nodes form one cluster.",
	},
	{
		Name: "all-killed", Modes: both, Rounds: 2, Rate: 4000, run: allKilled,
		Doc: "Kill all nodes at once, and start them 10 s later. With sync nothing is lost, with async at most the bound. A bucket has refilled for the time without nodes.",
		Live: Live{Async: within(0.002, 0.002, 0.02, 14, 2), Sync: within(0.002, 0.002, 0.03, 14, 2),
			Why: "All nodes are down for 10 s. This time does not count. Then they elect a leader within 2 s."},
	},
	{
		Name: "rolling-restart", Modes: both, Rounds: 1, Rate: 1000, run: rollingRestart,
		Doc: "Restart every node in turn (SIGTERM), while clients use up quotas of 1000 that are half used. In either mode no quota is exceeded, and every quota is handed out completely.",
		Live: Live{Async: within(0.001, 0.001, 0.01, 0.3, 0.1), Sync: within(0.001, 0.001, 0.02, 0.3, 0.1),
			Why: "Calls wait for each handover, some 20 ms. No call is refused."},
	},
	{
		Name: "partition-leader", Modes: both, Rounds: 6, Kinds: 2, Rate: 4000, run: partitionLeader,
		Doc:  "Cut the leader off from both other nodes: in one round by silence, in the next by closed connections. It stops admitting, and another node takes over.",
		Live: partitionLive,
	},
	{
		Name: "deposed", Modes: both, Rounds: 4, Rate: 2000, run: deposed,
		Doc: "Cut the leader off while it gets calls that can never be committed: charges, refunds, resets, another limit, and changes of values of every type. The next leader knows nothing of these calls. No unit is given twice. When the old leader leads again, it has forgotten these calls.",
		Live: Live{Async: within(0.24, 0.04, 0.07, 1.6, 0.1), Sync: within(0.36, 0.04, 0.06, 2.6, 2.2),
			Why: "As partition-leader."},
	},
	{
		Name: "partition-follower", Modes: both, Rounds: 3, Rate: 4000, run: partitionFollower,
		Doc: "Cut a follower off from both other nodes. The majority goes on.",
		Live: Live{Async: within(0.2, 0.006, 0.02, 0.3, 0.1), Sync: within(0.2, 0.006, 0.04, 0.3, 0.1),
			Groups: &partitionLive, Why: "The clients of the follower, a third of all clients, are refused while it is cut off. The others notice nothing."},
	},
	{
		Name: "partition-link", Modes: both, Rounds: 3, Rate: 4000, run: partitionLink,
		Doc: "Cut the link between the leader and one follower. Both still reach the third node.",
		Live: Live{Async: within(0.24, 0.02, 0.04, 1.8, 0.1), Sync: within(0.24, 0.02, 0.06, 1.8, 0.1),
			Why: "As partition-follower. The leader changes if the follower forces an election."},
	},
	{
		Name: "partition-asym", Modes: both, Rounds: 6, Kinds: 3, Rate: 4000, run: partitionAsym,
		Doc: "Cut one direction: the leader hears nobody, or nobody hears the leader, or one follower does not hear it.",
		Live: Live{Async: within(0.3, 0.03, 0.06, 2.2, 0.1), Sync: within(0.32, 0.03, 0.06, 2.6, 1.8),
			Why: "As partition-leader, in two of three rounds."},
	},
	{
		Name: "slow-links", Modes: both, Rounds: 2, Rate: 2000, run: slowLinks,
		Doc: "Delay all traffic between the nodes by 20 ms each way.",
		Live: Live{Async: within(0.01, 0.01, 0.42, 0.3, 0.1), Sync: within(0.01, 0.32, 0.5, 0.6, 0.3),
			Why: "Two thirds of the calls are forwarded, which takes 40 ms there and back. In sync the commit takes another 40 ms, and the call often takes more than `forward-timeout`."},
	},
	{
		Name: "pause", Modes: both, Rounds: 4, Rate: 2000, run: pause,
		Doc: "Stop the leader's process for 5 s (SIGSTOP), like a long pause of a virtual machine. It must not go on deciding.",
		Live: Live{Async: within(0.14, 0.01, 0.04, 2.2, 1.5), Sync: within(0.16, 0.01, 0.05, 2.2, 1.5),
			Why: "There is an election in each round of about 9 s."},
	},
	{
		Name: "torn-log", Modes: both, Rounds: 4, Kinds: 2, Rate: 3000, run: tornLog,
		Doc: "Kill a node and damage its log. A torn last write heals by itself. With half a log, the node ends with a message at each start, until its data is deleted.",
		Live: Live{Async: within(0.06, 0.006, 0.03, 2.2, 1.5), Sync: within(0.07, 0.006, 0.05, 2.2, 1.5),
			Groups: &killsLive, Why: "There is an election in half of the rounds. A round lasts up to 30 s, until the node votes again."},
	},
	{
		Name: "full-disk", Modes: both, Rounds: 2, Rate: 4000, run: fullDisk,
		Doc: "Fill the leader's disk. The leader gives up its leadership, and does not take it again while the disk is full. When there is room, it comes back. (Needs root, to mount file systems.)",
		Live: Live{Async: within(0.08, 0.012, 0.05, 2.2, 0.1), Sync: within(0.09, 0.012, 0.12, 2.2, 0.1),
			Why: "There is an election in each round of about 15 s. Sync calls wait for it instead of being refused. The leader goes on until the disk is full."},
	},
	{
		Name: "slow-disk", Modes: both, Rounds: 1, Rate: 2000, run: slowDisk,
		Doc: "Slow down every fsync of a follower, then of the leader, by 40 ms. Last, let the leader's disk hang. Decisions wait only for the leader's own writes. Slow disks cause no election; the hang causes one, and another node leads.",
		Live: Live{Async: within(0.3, 0.02, 0.1, 13, 0.1), Sync: within(0.34, 0.02, 0.6, 13, 12),
			Why: "A sync decision waits for slow disks, 40 ms per write. A leader whose disk hangs is replaced after 10 s."},
	},
	{
		Name: "power-loss", Modes: both, Rounds: 4, Kinds: 2, Rate: 2000, run: powerLoss,
		Doc: "Take the power from all nodes at once, then from the leader. What was not synced is gone: all of it, or random sectors, sizes and names, also in new data directories. Every node starts by itself. With sync nothing is lost. A finished snapshot is still there.",
		Live: Live{Async: within(0.3, 0.06, 0.3, 3, 2), Sync: within(0.3, 0.03, 0.25, 3, 2),
			Why: "There is an election in each round of about 4 s, in half of the rounds after all nodes were down. Clients connect again."},
	},
	{
		Name: "io-errors", Modes: both, Rounds: 3, Kinds: 3, Rate: 2000, run: ioErrors,
		Doc: "Let one fsync of the leader fail, then one write of a follower. The node ends. It starts again while the system still shows data that the disk does not have, and then loses power. A node that cannot read its disk reports this and ends.",
		Live: Live{Async: within(0.2, 0.03, 0.15, 2.5, 1.6), Sync: within(0.2, 0.03, 0.12, 2.5, 1.6),
			Why: "There are one or two elections in three rounds. A round takes a few seconds."},
	},
	{
		Name: "bit-rot", Modes: both, Rounds: 3, Kinds: 3, Rate: 2000, run: bitRot,
		Doc: "Kill a follower, and flip a bit in its term and vote, in a snapshot, or in its log. The node repairs the damage. Or it reports the damage and ends, until its data is deleted.",
		Live: Live{Async: within(0.01, 0.01, 0.04, 1, 0), Sync: within(0.02, 0.01, 0.06, 1, 0),
			Groups: &killsLive, Why: "Followers are killed. Now and then machines with little processor time elect a leader."},
	},
	{
		Name: "upgrade", Modes: both, Rounds: 1, Rate: 1000, run: upgrade,
		Doc: "Upgrade node by node to an executable with newer formats of effects, log entries and snapshots. Kill leaders of both versions on the way. No node ends. The nodes write the newer formats only when the last node can read them. After that, a node of the old version reports the newer formats and ends. If its data is deleted, the cluster does not take the node in either. After an upgrade, the node works again.",
		Live: Live{Async: within(0.25, 0.02, 0.06, 2.5, 1.5), Sync: within(0.28, 0.02, 0.08, 2.5, 1.5),
			Why: "Calls wait for handovers, and for elections after leaders were killed. Calls to nodes that end do not count."},
	},
	{
		Name: "snapshot-join", Modes: []string{Async}, Rounds: 1, Rate: 2000, run: snapshotJoin,
		Doc: "Write a snapshot of a million keys under load. A fourth node joins by it, and is restarted. No decision waits, and the tables are equal.",
		Live: Live{Async: within(0.002, 0.002, 0.01, 0.3, 0.1),
			Why: "Clients notice nothing."},
	},
	{
		Name: "transfers", Modes: both, Rounds: 6, Kinds: 2, Rate: 2000, run: transfers,
		Doc: "Move units between keys with chains (+1 AND -1) while leaders are killed. The sum is the same at every moment.",
		Live: Live{Async: within(0.28, 0.008, 0.04, 2.2, 1.5), Sync: within(0.28, 0.01, 0.06, 2.4, 1.5),
			Why: "As leader-kills."},
	},
	{
		Name: "slots", Modes: both, Rounds: 4, Kinds: 2, Rate: 1000, run: slots,
		Doc: "Acquire and release slots while leaders are killed. No key has more slots taken than its limit.",
		Live: Live{Async: within(0.28, 0.008, 0.04, 2.2, 1.5), Sync: within(0.28, 0.01, 0.06, 2.4, 1.5),
			Why: "As leader-kills."},
	},
	{
		Name: "leases", Modes: both, Rounds: 10, Kinds: 10, Rate: 500, run: leases,
		Doc: "Processes with [leases](leases.md) hold back, and then spend everything at once. Kill, stop and cut off one of them. Kill and stop the leader. Restart every node. Let a node lead that has only a snapshot. Reset, lower and delete the limit. Nothing is admitted beyond the limit, except as [stated](leases.md#what-is-promised). The server knows every unit that a process holds. Holders whose limit has room notice nothing.",
		Live: Live{Async: within(0.1, 0.01, 0.05, 2.5, 1.6), Sync: within(0.1, 0.015, 0.08, 2.5, 1.6),
			Why: "A leader is lost in two of ten rounds."},
	},
	{
		Name: "leases-policy", Modes: both, Rounds: 4, Kinds: 4, Rate: 200, run: leasesOfPolicy,
		Doc: "As leases, with a policy, and with fixed and sliding windows. Lower and raise the policy's shared limit while units are out. Kill a holder. Lower and raise the limit just before the leader is killed. Kill the leader. While the old blocks last, nothing is admitted beyond the old limit. After that, nothing is admitted beyond the new limit. No window is exceeded, and blocks end with their window.",
		Live: Live{Async: within(0.1, 0.01, 0.05, 2.5, 1.6), Sync: within(0.1, 0.015, 0.08, 2.5, 1.6),
			Why: "As leases."},
	},
	{
		Name: "leases-textbook", Modes: []string{Sync}, Rounds: 1, Rate: 500, Broken: []string{"leases"}, run: textbookLeases,
		Doc: "As leases, with blocks that do not reduce the limit, as textbooks describe them. The checks must see the units that are admitted beyond the limit.",
		Live: Live{Sync: within(0.01, 0.01, 0.05, 0.5, 0.1),
			Why: "A client is killed. Other calls do not notice it."},
	},
	{
		Name: "local", Modes: []string{Async}, Rounds: 6, Kinds: 3, Rate: 1200, run: local,
		Doc: "With `on-failure local`, do three harms in turn: cut all nodes from each other, kill two of three, cut one off. No node admits more than its share. After the repair, each admitted unit is charged once, even if the repair is interrupted.",
		Live: Live{Async: within(0.15, 0.03, 0.02, 14, 13),
			Why: "The harm lasts long. Meanwhile nodes refuse two kinds of calls: limits of 2 that another node has, and calls on a used-up share, which only a leader can judge."},
	},
	{
		Name: "open-as-local", Modes: []string{Async}, Rounds: 1, Rate: 1200, Broken: []string{"shares", "charged"}, run: openAsLocal,
		Doc: "As local with `on-failure open`, judged by the rules of `local`. The checks must see the units beyond the shares, and that nobody charges them.",
		Live: Live{Async: within(0.15, 0.03, 0.02, 14, 13),
			Why: "As local."},
	},
	{
		Name: "local-kills", Modes: []string{Async}, Rounds: 6, Rate: 2000, run: localKills,
		Doc: "Kill the leader with `on-failure local`. Clients of surviving nodes get no error, and every answer comes within 150 ms. For gateways, over HTTP and gRPC, 99 of 100 answers do.",
		Live: Live{Async: within(0.002, 0.002, 0.005, 2.2, 1.5),
			Why: "Shares answer: no call is refused, and none waits."},
	},
	{
		Name: "availability", Modes: []string{Async}, Rounds: 16, Kinds: 8, Rate: 2000, run: availability,
		Doc: "Do all kinds of harm in turn, with the default parameters. Surviving nodes answer 99.99 % of all calls within 20 ms.",
		Live: Live{Async: within(0.0005, 0.0005, 0.002, 2.4, 1.5),
			Why: "Shares answer. The goal itself is a check of its own."},
	},
	{
		Name: "clocks", Modes: both, Rounds: 1, Rate: 1000, run: clocks,
		Doc: "The nodes' clocks run wrong by 500 ppm either way, and their wall clocks are an hour ahead and an hour behind. Each node leads in turn, while its wall clock steps by 5 s both ways. One node leads for 30 s while its clock runs slow and is corrected, and is then killed. All wall clocks are set an hour ahead while all nodes are down. The limits' clock jumps forward by at most 1 ms, the error of a reading. It jumps back by at most 10 ms for each change of leaders.",
		Live: Live{Async: within(0.03, 0.01, 0.02, 6.5, 1.5), Sync: within(0.04, 0.01, 0.04, 6.5, 1.5),
			Why: "There are handovers and elections, and all nodes are down for 3 s."},
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
