// Command build writes the documentation as a web site.
//
//	go run ./docs/site/build [directory]
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/headgate-io/headgate/docs"
	"github.com/headgate-io/headgate/docs/site"
)

func main() {
	dir := filepath.Join("bin", "docs")
	if len(os.Args) > 1 {
		dir = os.Args[1]
	}
	s, err := site.Make(docs.Files, docs.Source)
	if err == nil {
		err = s.Write(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "docs:", err)
		os.Exit(1)
	}
	fmt.Println("open", filepath.Join(dir, "index.html"))
}
