package envoy

import (
	"math"

	"github.com/headgate-io/headgate/server/verdict"
)

// Numbers of the fields of RateLimitResponse and its parts.
const (
	responseCode     = 1
	responseStatuses = 2
	responseHeaders  = 3
	responseBody     = 5
	responseMetadata = 6

	statusCode      = 1
	statusLimit     = 2
	statusRemaining = 3
	statusReset     = 4

	currentRequests   = 1
	currentUnit       = 2
	currentName       = 3
	currentMultiplier = 4

	durationSeconds = 1

	headerKey   = 1
	headerValue = 2
)

// Codes of answers and statuses.
const (
	codeOK        = 1
	codeOverLimit = 2
)

func codeFor(over bool) uint64 {
	if over {
		return codeOverLimit
	}
	return codeOK
}

// appendStatus appends the status of a descriptor.
func appendStatus(b []byte, s *verdict.Status) []byte {
	b = appendVarint(b, statusCode, codeFor(s.Over))
	var at int
	if s.Limited {
		b, at = begin(b, statusLimit)
		b = appendVarint(b, currentRequests, uint32Of(s.Requests))
		b = appendVarint(b, currentUnit, unitNumbers[string(s.Unit)])
		b = appendText(b, currentName, s.Name)
		if s.Multiplier > 1 {
			var times int
			b, times = begin(b, currentMultiplier)
			b = end(appendVarint(b, wrapped, uint32Of(s.Multiplier)), times)
		}
		b = end(b, at)
	}
	if !s.Over { // over the limit, Envoy's service always says that nothing remains
		b = appendVarint(b, statusRemaining, uint32Of(s.Remaining))
	}
	if s.Limited && s.ResetMS > 0 {
		b, at = begin(b, statusReset)
		// Envoy cuts off fractions. Round up, because clients would otherwise return too
		// early.
		b = end(appendVarint(b, durationSeconds, uint64(verdict.Seconds(s.ResetMS))), at)
	}
	return b
}

// uint32Of returns the nearest number that fits the field.
func uint32Of(n int64) uint64 { return uint64(min(max(0, n), math.MaxUint32)) }

// appendHeader appends a header field for the client.
func appendHeader(b []byte, name, value string) []byte {
	b, at := begin(b, responseHeaders)
	return end(appendText(appendText(b, headerKey, name), headerValue, value), at)
}
