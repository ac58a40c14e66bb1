package torch

import "github.com/trainspan/trainspan/internal/ingest/torch/kineto"

// dtypeSize returns the bytes of one element for a type in any spelling of
// PyTorch, or 0 if it is not a tensor type.
func dtypeSize(word string) int64 {
	switch word {
	case "double", "Double", "long int", "long", "Long", "unsigned long", "c10::complex<float>", "ComplexFloat", "UInt64":
		return 8
	case "float", "Float", "int", "Int", "unsigned int", "UInt32", "ComplexHalf":
		return 4
	case "c10::Half", "Half", "c10::BFloat16", "BFloat16", "short", "short int", "Short", "unsigned short", "UInt16":
		return 2
	case "unsigned char", "signed char", "char", "bool", "Byte", "Char", "Bool", "c10::Float8_e4m3fn", "c10::Float8_e5m2", "c10::Float8_e4m3fnuz",
		"c10::Float8_e5m2fnuz", "Float8_e4m3fn", "Float8_e5m2", "Float8_e4m3fnuz", "Float8_e5m2fnuz":
		return 1
	case "c10::complex<double>", "ComplexDouble":
		return 16
	}
	return 0
}

// shapeSizes caches the sizes of shapes: a training has few, which come again
// in each step. The zero value is ready for use.
type shapeSizes struct {
	known map[string][2]int64
	key   []byte
}

// maxShapes bounds the cached shapes, maxShape the text of one.
const (
	maxShapes = 4096
	maxShape  = 1024
)

// sizeOf is a cached inputSize.
func (s *shapeSizes) sizeOf(dims, types []byte) (elems, bytes int64) {
	if len(dims)+len(types) > maxShape {
		return inputSize(dims, types)
	}
	s.key = append(append(s.key[:0], dims...), types...)
	if size, ok := s.known[string(s.key)]; ok {
		return size[0], size[1]
	}
	elems, bytes = inputSize(dims, types)
	if s.known == nil {
		s.known = map[string][2]int64{}
	}
	if len(s.known) < maxShapes {
		s.known[string(s.key)] = [2]int64{elems, bytes}
	}
	return elems, bytes
}

// inputSize returns the total elements and bytes of the tensor arguments of an
// operator. An argument without dimensions counts as one element if its type is
// a tensor type, and as nothing otherwise. bytes excludes tensors with an
// unknown type.
func inputSize(dims, types []byte) (elems, bytes int64) {
	var words [64]string
	n := 0
	kineto.Elements(types, func(e []byte) bool {
		if n < len(words) {
			words[n] = knownType(e)
			n++
		}
		return true
	})
	i := 0
	kineto.Elements(dims, func(e []byte) bool {
		word := ""
		if i < n {
			word = words[i]
		}
		i++
		size := dtypeSize(word)
		count := shapeElements(e, size > 0)
		elems += count
		bytes += count * size
		return true
	})
	return elems, bytes
}

// knownType returns a type's name without allocating for the common ones.
func knownType(e []byte) string {
	switch string(e) {
	case `"float"`:
		return "float"
	case `"long int"`:
		return "long int"
	case `"int"`:
		return "int"
	case `"c10::BFloat16"`:
		return "c10::BFloat16"
	case `"c10::Half"`:
		return "c10::Half"
	case `"double"`:
		return "double"
	case `"bool"`:
		return "bool"
	case `""`, `"Scalar"`, `"ScalarList"`, `"TensorList"`, `"Int"`, `"Bool"`, `"GenericList"`:
		// Int and Bool are scalars in this list; dtype words are lower case.
		return ""
	}
	return kineto.UnquoteText(e)
}

func shapeElements(shape []byte, tensor bool) int64 {
	product, sum := int64(1), int64(0)
	nums, nested := 0, false
	kineto.Elements(shape, func(e []byte) bool {
		if len(e) > 0 && e[0] == '[' {
			nested = true
			sum += shapeElements(e, true)
			return true
		}
		if v, ok := kineto.ParseInt(e); ok && v >= 0 {
			nums++
			if v != 0 && product > (1<<62)/v {
				product = 0
				return false
			}
			product *= v
		}
		return true
	})
	switch {
	case nested:
		return sum
	case nums > 0 || tensor:
		return product
	}
	return 0
}
