package verdict

import "net/http"

// Problem types of RFC 9457, for which draft-ietf-httpapi-ratelimit-headers asks IANA.
const (
	typeQuota    = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	typeCapacity = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
	typeAbuse    = "https://iana.org/assignments/http-problem-types#abnormal-usage-detected"
)

// Problem returns the type and the title of the problem for a status. reason is the reason
// of a verdict that denies, otherwise nil.
func Problem(status int, reason []byte) (kind, title string) {
	switch {
	case status == http.StatusServiceUnavailable:
		return typeCapacity, "Temporary Reduced Capacity"
	case status == http.StatusTooManyRequests && string(reason) == "penalty":
		return typeAbuse, "Abnormal Usage Detected"
	case status == http.StatusTooManyRequests:
		return typeQuota, "Quota Exceeded"
	}
	return "about:blank", http.StatusText(status)
}
