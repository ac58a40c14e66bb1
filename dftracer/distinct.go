package dftracer

// userPrefix stands in front of a user's key that the format or a record of
// this package uses itself.
const userPrefix = "user_"

// Distinct renames what is the user's, args[from:to], where its key is also that
// of an argument outside of that range: it gets the prefix, more than once if
// another argument has that key too.
func Distinct(args []Arg, from, to int, prefix string) {
	for i := from; i < to; i++ {
		if !holds(args[:from], args[i].Key) && !holds(args[to:], args[i].Key) {
			continue
		}
		key := prefix + args[i].Key
		for holds(args, key) {
			key = prefix + key
		}
		args[i].Key = key
	}
}

func holds(args []Arg, key string) bool {
	for i := range args {
		if args[i].Key == key {
			return true
		}
	}
	return false
}
