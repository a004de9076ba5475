//! Tensors of a safetensors file by name, in f32, with the shape that the configuration asks for.

use crate::error::LocalError;
use candle_core::{DType, Device, Tensor};
use std::collections::BTreeMap;
use std::path::Path;

/// The tensors of one folder.
pub(crate) struct Weights(BTreeMap<String, Tensor>);

impl Weights {
    /// Reads one file, or all that `NAME.index.json` lists.
    pub(crate) fn read(folder: &Path, name: &str) -> Result<Self, LocalError> {
        let index = folder.join(format!("{name}.index.json"));
        if !index.is_file() {
            return Ok(Self(load(&folder.join(name))?));
        }
        let listed: serde_json::Value = crate::error::read_json(&index)?;
        let map = listed["weight_map"].as_object();
        let map = map.ok_or_else(|| LocalError::unsupported(&index, "no weight_map"))?;
        let mut files: Vec<&str> = map.values().filter_map(serde_json::Value::as_str).collect();
        files.sort_unstable();
        files.dedup();
        let mut all = BTreeMap::new();
        for file in files {
            if Path::new(file).components().count() != 1 {
                return Err(LocalError::unsupported(&index, format!("{file} is not a file of the folder")));
            }
            all.extend(load(&folder.join(file))?);
        }
        Ok(Self(all))
    }

    /// Takes a tensor of this shape.
    pub(crate) fn take(&mut self, name: &str, shape: &[usize]) -> Result<Tensor, LocalError> {
        self.take_if_there(name, shape)?
            .ok_or_else(|| LocalError::Tensor { name: name.to_owned(), message: "is missing".to_owned() })
    }

    /// The same, of a tensor that need not be there.
    pub(crate) fn take_if_there(
        &mut self,
        name: &str,
        shape: &[usize],
    ) -> Result<Option<Tensor>, LocalError> {
        let Some(tensor) = self.0.remove(name) else { return Ok(None) };
        if tensor.dims() != shape {
            let message = format!("has shape {:?}, the configuration says {shape:?}", tensor.dims());
            return Err(LocalError::Tensor { name: name.to_owned(), message });
        }
        Ok(Some(tensor.to_dtype(DType::F32)?))
    }

    /// Names of what nobody took, in order.
    pub(crate) fn left(&self) -> Vec<&str> {
        self.0.keys().map(String::as_str).collect()
    }
}

fn load(path: &Path) -> Result<BTreeMap<String, Tensor>, LocalError> {
    // Opened first, so that a missing file is named as such.
    std::fs::File::open(path).map_err(|source| LocalError::Read { path: path.to_path_buf(), source })?;
    candle_core::safetensors::load(path, &Device::Cpu)
        .map(|tensors| tensors.into_iter().collect())
        .map_err(|error| LocalError::unsupported(path, error.to_string()))
}
