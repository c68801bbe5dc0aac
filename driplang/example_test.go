package driplang_test

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/sebbroker/seb/driplang"
)

func Example() {
	expr, err := driplang.Parse(`cart THEN not purchase[amount > 100] within 1 day`)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(expr)
	fmt.Println(expr.Names())
	text, err := json.Marshal(expr)
	fmt.Println(string(text), err)
	// Output:
	// cart THEN (NOT (purchase[amount > 100] WITHIN 1d))
	// [cart purchase]
	// {"then":[{"event":"cart"},{"not":{"within":{"event":"purchase","where":{"property":"amount","is":"\u003e","value":100}},"for":"1d"}}]} <nil>
}

func ExampleError_Caret() {
	const text = "A THEN (B WITHIN 2 parsecs)"
	_, err := driplang.Parse(text)
	fmt.Println(err)
	if fault := (*driplang.Error)(nil); errors.As(err, &fault) {
		fmt.Println(fault.Caret(text))
	}
	// Output:
	// 1:18: unknown unit 'parsecs': use ms, s, m, h, d or w
	// A THEN (B WITHIN 2 parsecs)
	//                  ^
}

func ExampleExpr_Warnings() {
	expr, err := driplang.Parse("signup THEN NOT login")
	fmt.Println(err)
	for _, w := range expr.Warnings() {
		fmt.Println(w.Message)
	}
	// Output:
	// <nil>
	// NOT without WITHIN: true at once when signup is complete; did you mean signup THEN ((NOT login) WITHIN ...)?
}
