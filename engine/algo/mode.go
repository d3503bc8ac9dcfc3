package algo

// Mode is the effect that the verdict of a policy's limit has on the call.
type Mode uint8

const (
	// Enforce denies calls, and is charged by calls that pass.
	Enforce Mode = iota
	// Soft is charged by calls that pass, and reports where it would have denied them.
	Soft
	// Shadow reports where it would have denied calls that passed. It is charged only by
	// calls that it would have allowed, as if it were enforced.
	Shadow
	// Off does not apply.
	Off
)
