package policy

import "bytes"

// IsDescriptorKey reports whether a key can belong to a counter of descriptors, and returns
// the policy's name.
func IsDescriptorKey(key []byte) (policy string, ok bool) {
	head, rest, found := bytes.Cut(key, []byte(":"+DescriptorsID+";"))
	window, _, more := bytes.Cut(rest, []byte(";"))
	if !found || !more || len(head) == 0 || head[0] != '@' || !isPolicyName(string(head[1:])) {
		return "", false
	}
	if seconds, ok := bytes.CutSuffix(window, []byte("s")); !ok || len(seconds) == 0 || len(bytes.Trim(seconds, "0123456789")) > 0 {
		return "", false
	}
	return string(head[1:]), true
}

// DescriptorEntries returns the entries of the descriptor whose counter has this key: key,
// value, key, value and so on. It returns false for other keys, and for a key that contains
// a hash instead of the entries.
func DescriptorEntries(key []byte) (entries [][]byte, ok bool) {
	if _, ok := IsDescriptorKey(key); !ok {
		return nil, false
	}
	_, rest, _ := bytes.Cut(key, []byte(";"))
	_, rest, _ = bytes.Cut(rest, []byte(";"))
	for part := range bytes.SplitSeq(rest, []byte(";")) {
		name, value, found := bytes.Cut(part, []byte("="))
		if !found || isDigest(name) || isDigest(value) {
			return nil, false
		}
		k, known := unescape(string(name))
		v := ""
		if len(value) > 0 && known {
			v, known = unescape(string(value))
		}
		if !known {
			return nil, false
		}
		entries = append(entries, []byte(k), []byte(v))
	}
	return entries, len(entries) <= 2*MaxEntries
}
