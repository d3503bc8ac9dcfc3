package history

// Asked is one question of a gateway, which asks once: about a request by routes, over
// HTTP, or by a descriptor, over gRPC. Times are as in Call.
type Asked struct {
	Front      string // gateway or Envoy
	User       string
	Node       uint8
	Start, End int64
	Outcome    Outcome

	// Local: the failure policy has answered.
	Local bool
	// Wrong is an answer that no such question may get, and Refusal why there was no
	// decision.
	Wrong, Refusal string
}
