package file_test

func child(role string, args []string) int { return 2 }
