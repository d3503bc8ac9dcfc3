// Package browser tests the console in Chromium. It is a module of its own: the server's
// module needs none of its dependencies.
package browser
