package engine

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
)

// A figure that Plus forgets would be that of one engine only.
func TestPlusAddsEveryFigure(t *testing.T) {
	var one Stats
	var fill func(v reflect.Value)
	fill = func(v reflect.Value) {
		for i := range v.NumField() {
			switch f := v.Field(i); {
			case f.Kind() == reflect.Struct:
				fill(f)
			case f.CanInt():
				f.SetInt(3)
			case f.CanUint():
				f.SetUint(3)
			default:
				t.Fatalf("a figure of kind %v", f.Kind())
			}
		}
	}
	fill(reflect.ValueOf(&one).Elem())
	sum := one.Plus(one)
	var check func(v reflect.Value)
	check = func(v reflect.Value) {
		for i := range v.NumField() {
			switch f, name := v.Field(i), v.Type().Field(i).Name; {
			case f.Kind() == reflect.Struct:
				check(f)
			case name == "MaxBytes":
				require.EqualValues(t, 3, f.Int(), name)
			case f.CanInt():
				require.EqualValues(t, 6, f.Int(), name)
			default:
				require.EqualValues(t, 6, f.Uint(), name)
			}
		}
	}
	check(reflect.ValueOf(sum))
}
