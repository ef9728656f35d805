// What a step of training is given again and again: whether it is what it was.
#include <nanobind/stl/unique_ptr.h>

#include <memory>
#include <vector>

#include "base/error.h"
#include "python/bind.h"
#include "python/tensor_cast.h"
#include "torch/held.h"

namespace torch_pjrt::python {
namespace {

namespace nb = nanobind;

// What lists and dicts hold, by identity, and of other objects their class and that their
// attributes lie in the dict where they lay.
class Contents {
 public:
  explicit Contents(const nb::list& containers) {
    for (const nb::handle container : containers) add(nb::borrow(container));
  }

  bool same() {
    for (const Instance& i : instances_) {
      if (Py_TYPE(i.object.ptr()) != i.type || attributes(i.object.ptr()).ptr() != i.dict.ptr())
        return false;
    }
    const nb::object* item = items_.data();
    for (Container& c : containers_) {
      const uint64_t version = version_of(c.object.ptr());
      if (version == 0 || version != c.version) {
        if (!is_same(c, item)) return false;
        c.version = version;
      }
      item += c.num_items;
    }
    return true;
  }

 private:
  struct Container {
    nb::object object;
    Py_ssize_t size;
    Py_ssize_t num_items;  // a dict's keys count too
    uint64_t version;      // when it was looked at last
  };

  struct Instance {
    nb::object object;
    PyTypeObject* type;  // which its instances hold
    nb::object dict;
  };

  // Throws Python's error for an object without attributes of its own.
  static nb::object attributes(PyObject* o) {
    PyObject* dict = PyObject_GenericGetDict(o, nullptr);
    if (!dict) throw nb::python_error();
    return nb::steal(dict);
  }

  void add(nb::object object) {
    PyObject* o = object.ptr();
    if (!PyDict_Check(o) && !PyList_Check(o)) {
      nb::object dict = attributes(o);
      instances_.push_back({std::move(object), Py_TYPE(o), dict});
      return add(std::move(dict));
    }
    const size_t before = items_.size();
    if (PyDict_Check(o)) {
      PyObject *key, *value;
      for (Py_ssize_t position = 0; PyDict_Next(o, &position, &key, &value);) {
        items_.push_back(nb::borrow(key));
        items_.push_back(nb::borrow(value));
      }
    } else {
      for (Py_ssize_t i = 0; i < PyList_GET_SIZE(o); ++i)
        items_.push_back(nb::borrow(PyList_GET_ITEM(o, i)));
    }
    containers_.push_back({std::move(object), size_of(o),
                           static_cast<Py_ssize_t>(items_.size() - before), version_of(o)});
  }

  // A number that each change of a dict changes; 0 for a list, and where Python counts none.
  static uint64_t version_of(PyObject* o) {
#if PY_VERSION_HEX < 0x030C0000
    if (PyDict_Check(o)) return reinterpret_cast<PyDictObject*>(o)->ma_version_tag;
#endif
    return 0;
  }

  static Py_ssize_t size_of(PyObject* o) {
    return PyDict_Check(o) ? PyDict_GET_SIZE(o) : PyList_GET_SIZE(o);
  }

  static bool is_same(const Container& c, const nb::object* item) {
    PyObject* o = c.object.ptr();
    if (size_of(o) != c.size) return false;
    if (PyList_Check(o)) {
      for (Py_ssize_t i = 0; i < c.size; ++i) {
        if (PyList_GET_ITEM(o, i) != item[i].ptr()) return false;
      }
      return true;
    }
    PyObject *key, *value;
    for (Py_ssize_t position = 0; PyDict_Next(o, &position, &key, &value); item += 2) {
      if (key != item[0].ptr() || value != item[1].ptr()) return false;
    }
    return true;
  }

  std::vector<Instance> instances_;
  std::vector<Container> containers_;
  std::vector<nb::object> items_;
};

std::unique_ptr<aten::Held> make_held(nb::handle tensors, size_t parameters) {
  return held_list(tensors.ptr(), parameters);
}

}  // namespace

void bind_held(nb::module_& m) {
  nb::class_<Contents>(m, "Contents")
      .def(nb::init<nb::list>(), nb::arg("containers"))
      .def("same", &Contents::same);
  nb::class_<aten::Held>(m, "Held")
      .def(nb::new_(&make_held), nb::arg("tensors"), nb::arg("parameters"))
      .def("unchanged", &aten::Held::unchanged)
      .def(
          "contains_any",
          [](const aten::Held& held, nb::handle list) { return held_contains(held, list.ptr()); },
          nb::arg("objects"))
      .def("drop_gradients", &aten::Held::drop_gradients)
      .def("raise_versions", &aten::Held::raise_versions);
}

}  // namespace torch_pjrt::python
