package attrvalue_test

import (
	"math"
	"math/big"
	"testing"

	"github.com/trainspan/trainspan/internal/platform/attrvalue"
	"go.opentelemetry.io/otel/attribute"
)

func TestCountOfAndBigInt(t *testing.T) {
	beyond := new(big.Int).Lsh(big.NewInt(1), 63)
	monster := new(big.Int).Exp(big.NewInt(10), big.NewInt(400), nil)
	for _, c := range []struct {
		name  string
		attr  attrvalue.Attr
		kind  attribute.Type
		text  string
		exact string // empty means that Exact is nil
	}{
		{"count within int64", attrvalue.CountOf("k", attrvalue.CountOfUint(math.MaxInt64)), attribute.INT64, "9223372036854775807", ""},
		{"count beyond int64", attrvalue.CountOf("k", attrvalue.CountOfUint(1<<63)), attribute.FLOAT64, "9.223372036854775808e+18", "9223372036854775808"},
		{"FLOPs of a real run", attrvalue.CountOf("k", attrvalue.Product(2048, 34e14).Times(1000)), attribute.FLOAT64, "6.9632e+21", "6963200000000000000000"},
		{"big within int64", attrvalue.BigInt("k", big.NewInt(math.MinInt64)), attribute.INT64, "-9223372036854775808", ""},
		{"big beyond int64", attrvalue.BigInt("k", beyond), attribute.FLOAT64, "9.223372036854775808e+18", "9223372036854775808"},
		{"big below int64", attrvalue.BigInt("k", new(big.Int).Neg(new(big.Int).Lsh(beyond, 3))), attribute.FLOAT64, "-7.3786976294838206464e+19", "-73786976294838206464"},
		{"big beyond float64", attrvalue.BigInt("k", monster), attribute.STRING, monster.String(), monster.String()},
		{"nil", attrvalue.BigInt("k", nil), attribute.STRING, "null", "{}"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := c.attr
			if a.Key != "k" || a.Value.Type() != c.kind {
				t.Fatalf("value %v of kind %v, want kind %v", a.Value.String(), a.Value.Type(), c.kind)
			}
			if c.kind == attribute.FLOAT64 {
				want, _ := new(big.Float).SetString(c.text)
				if f, _ := want.Float64(); a.Value.AsFloat64() != f {
					t.Errorf("value is %v, want %v", a.Value.AsFloat64(), f)
				}
			} else if a.Value.String() != c.text {
				t.Errorf("value is %s, want %s", a.Value.String(), c.text)
			}
			if got := exactText(a.Exact); got != c.exact {
				t.Errorf("exact: got %q, want %q", got, c.exact)
			}
		})
	}
	a := attrvalue.BigInt("k", beyond)
	beyond.SetInt64(0)
	if exactText(a.Exact) != "9223372036854775808" {
		t.Error("the attribute changes with the caller's big.Int")
	}
}
