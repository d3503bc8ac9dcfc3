package web

import (
	"net/http"
	"sync"

	"github.com/headgate-io/headgate/docs"
	"github.com/headgate-io/headgate/docs/site"
)

// documentation is the site of the documents of this version. It is made for the first
// reader, in about a tenth of a second, and then kept, in less than 1 MiB.
var documentation = sync.OnceValues(func() (site.Site, error) { return site.Make(docs.Files, docs.Source) })

// documents serves the documentation below /docs/. It has no secret, so it needs no token.
func documents(w http.ResponseWriter, r *http.Request) {
	s, err := documentation()
	if err != nil { // a defect, which the tests of the site would find
		plain(w, http.StatusInternalServerError, err.Error())
		return
	}
	http.StripPrefix("/docs", s).ServeHTTP(w, r)
}
