package command

import "slices"

// Flag is a property of a command, or a set of properties. The server or its clients act on
// it.
type Flag uint32

// Flags of commands. Clients see the flags up to SkipSlowlog; the later ones are internal
// to the server.
const (
	Write       Flag = 1 << iota // may change a key
	Readonly                     // reads keys and changes none
	DenyOOM                      // may need memory for a new key
	Admin                        // for operators; not shown by MONITOR
	PubSub                       // Pub/Sub
	NoScript                     // not from scripts
	Loading                      // answered while state is being loaded
	Stale                        // answered without a leader
	Fast                         // O(1) or O(log n): the server does not time each call
	NoAuth                       // allowed before authentication
	NoMulti                      // not allowed inside MULTI
	SkipSlowlog                  // not in the slow log

	Immediate  // runs at once inside MULTI, is not queued
	Subscribed // allowed while a RESP2 connection is subscribed
	Unpaused   // runs also during CLIENT PAUSE
	NoTable    // locks no shard: may run in an EXEC that holds locks of shards
	Exec       // is EXEC
	Wait       // is WAIT
	Limit      // asks a limit: without a leader, the failure policy may answer
	Counter    // reads or changes counters, deletes none: without a leader, the failure policy may answer
	OwnConn    // acts on its connection: never forwarded, because it would act on the forwarding connection
	Local      // each node of a cluster answers itself, although the command has keys or reads the table
	Select     // is SELECT
	Peers      // only other nodes of the cluster may send it
	// Long may take seconds: it reads a whole table, any number of keys, or a file of
	// policies. Its jobs have workers of their own, and more time before they count as hung.
	Long
	Leader    // only the leader answers: set for commands with keys, Write or Readonly that are not Local
	NeedsConn // acts on its connection, or needs one for another reason: set if OwnConn or Peers is
	Script    // runs a script: slow scripts have workers of their own
	Databases // may touch other databases than the connection's
	Forwarded // other nodes may send it for their clients: set if Leader is and OwnConn is not
	Guarded   // if admin-pass is set, for the user admin only; never together with Fast or Script
)

// flagNames are the flags that clients see, in Redis's words.
var flagNames = []struct {
	flag Flag
	name string
}{
	{Write, "write"}, {Readonly, "readonly"}, {DenyOOM, "denyoom"}, {Admin, "admin"},
	{PubSub, "pubsub"}, {NoScript, "noscript"}, {Loading, "loading"}, {Stale, "stale"},
	{SkipSlowlog, "skip_slowlog"}, {Fast, "fast"}, {NoAuth, "no_auth"}, {NoMulti, "no_multi"},
}

// Category is a set of ACL categories. NewTable adds the categories that follow from flags
// (read, write, admin, dangerous, pubsub, fast, slow, guarded).
type Category uint32

// Categories, in the order of categoryNames.
const (
	CatKeyspace Category = 1 << iota
	CatRead
	CatWrite
	CatSet
	CatSortedSet
	CatList
	CatHash
	CatString
	CatPubSub
	CatAdmin
	CatFast
	CatSlow
	CatBlocking
	CatDangerous
	CatConnection
	CatTransaction
	CatLimiter
	CatScripting
	CatGuarded
)

// categoryNames are in the order of the bits.
var categoryNames = []string{
	"keyspace", "read", "write", "set", "sortedset", "list", "hash", "string", "pubsub", "admin", "fast", "slow", "blocking", "dangerous",
	"connection", "transaction", "limiter", "scripting", "guarded",
}

// impliedCategories returns the categories that follow from flags, as in Redis.
func impliedCategories(f Flag) Category {
	var c Category
	if f&Write != 0 {
		c |= CatWrite
	}
	if f&Readonly != 0 {
		c |= CatRead
	}
	if f&Admin != 0 {
		c |= CatAdmin | CatDangerous
	}
	if f&PubSub != 0 {
		c |= CatPubSub
	}
	if f&Guarded != 0 {
		c |= CatGuarded
	}
	if f&Fast != 0 {
		c |= CatFast
	} else {
		c |= CatSlow
	}
	return c
}

// CategoryNamed returns the set with the one category called name, in lower case; 0 for an
// unknown name.
func CategoryNamed(name string) Category {
	if i := slices.Index(categoryNames, name); i >= 0 {
		return 1 << i
	}
	return 0
}

// CategoryNames returns the names of all categories.
func CategoryNames() []string { return categoryNames }
