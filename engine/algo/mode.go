package algo

// Mode is what the verdict of a policy's limit means for the call.
type Mode uint8

const (
	// Enforce denies calls, and is charged by those that pass.
	Enforce Mode = iota
	// Soft is charged by calls that pass, and tells where it would have denied
	// them.
	Soft
	// Shadow is charged as if it were enforced and the call denied if it denies,
	// and tells where it would have denied what has passed.
	Shadow
	// Off does not apply.
	Off
)
