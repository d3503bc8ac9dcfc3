package policy

import "fmt"

// Place is where something is in its text.
type Place struct {
	Line, Column int32
	Path         *Step
}

// Step is the last step of a path, such as limits.user.by[1], with a reference to the steps
// before it. Most paths are never written as text.
type Step struct {
	Up   *Step
	Name string
}

// String returns the path, "" for nil.
func (s *Step) String() string {
	switch {
	case s == nil:
		return ""
	case s.Up != nil && s.Name[0] != '[':
		return s.Up.String() + "." + s.Name
	}
	return s.Up.String() + s.Name
}

// Scalar is a scalar, and its place.
type Scalar struct {
	S string
	Place
}

// Error returns an error at the place, in a file.
func (p Place) Error(file, format string, args ...any) *Error {
	return &Error{File: file, Line: int(p.Line), Column: int(p.Column), Path: p.Path.String(), Text: fmt.Sprintf(format, args...)}
}
