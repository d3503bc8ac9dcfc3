// Package command says what a command is: its [Spec], the [Table] that finds it
// by name and tells clients about it, and the [Call] of it that a [Handler]
// runs. It knows no connection; a call's [Host] executes it.
package command
