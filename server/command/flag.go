package command

import "slices"

// Flag is a property of a command that the server or its clients act on.
type Flag uint32

// Flags of commands: clients see those up to SkipSlowlog; the others are the server's.
const (
	Write       Flag = 1 << iota // may change a key
	Readonly                     // reads keys and changes none
	DenyOOM                      // may need memory for a new key
	Admin                        // for operators; not shown by MONITOR
	PubSub                       // Pub/Sub
	NoScript                     // not from scripts
	Loading                      // answered while state is being loaded
	Stale                        // answered without a leader
	Fast                         // O(1) or O(log n): not timed one by one
	NoAuth                       // allowed before authentication
	NoMulti                      // not allowed inside MULTI
	SkipSlowlog                  // not in the slow log

	Immediate  // runs inside MULTI instead of being queued
	Subscribed // allowed while a RESP2 connection is subscribed
	Unpaused   // does not wait for the end of CLIENT PAUSE
	NoTable    // needs no lock of a shard: may run in an EXEC that holds some
	Exec       // is EXEC
	Wait       // is WAIT
	Limit      // asks a limit: the failure policy may answer
	Counter    // is about counters, and deletes none: the failure policy may answer
	OwnConn    // acts on its connection: never forwarded, where it would act on another
	Local      // each node of a cluster answers for itself, though it is about keys
	Select     // is SELECT
	Peers      // only nodes of the cluster may send it
	Long       // may take seconds: reads a whole table, any number of keys, or a file of policies
	Leader     // only the leader answers: set for all other commands about keys
	NeedsConn  // acts on its connection, or makes no sense without one: set if OwnConn or Peers is
	Script     // runs a script: slow ones have workers of their own
	Databases  // may touch another database than its connection's
	Forwarded  // other nodes may send it for their clients: set if Leader is and OwnConn is not
	Guarded    // with admin-pass set, for the user admin only; never with Fast or Script
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

// Category is a set of ACL categories. The table adds those that follow from flags (read,
// write, admin, dangerous, pubsub, fast, slow, guarded).
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

// CategoryNamed returns the set of the category called name, in lower case; 0 for an
// unknown name.
func CategoryNamed(name string) Category {
	if i := slices.Index(categoryNames, name); i >= 0 {
		return 1 << i
	}
	return 0
}

// CategoryNames returns the names of all categories.
func CategoryNames() []string { return categoryNames }
