package web

import (
	_ "embed"
	"net/http"
)

// openapi describes the API. A test runs its examples.
//
//go:embed openapi.yaml
var openapi []byte

// document serves the description.
func document(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/yaml")
	_, _ = w.Write(openapi)
}
