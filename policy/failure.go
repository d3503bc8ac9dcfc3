package policy

// Failure is what a policy answers while no node can decide.
type Failure uint8

// The zero value uses the server's setting.
const (
	FailServer Failure = iota
	FailOpen
	FailClosed
	FailLocal
)

var failureWords = [...]string{"", "open", "closed", "local"}

// String returns the word of the grammar, "" for FailServer.
func (f Failure) String() string { return failureWords[f] }

// MaxBackstop is the largest backstop that a policy may set. A backstop is the multiple of
// its limits that a policy admits without a leader.
const MaxBackstop = 1_000_000

// Durability is what a policy's answers wait for.
type Durability uint8

// The zero value uses the server's setting.
const (
	DurabilityServer Durability = iota
	Async
	Sync
)

var durabilityWords = [...]string{"", "async", "sync"}

// String returns the word of the grammar, "" for DurabilityServer.
func (d Durability) String() string { return durabilityWords[d] }
