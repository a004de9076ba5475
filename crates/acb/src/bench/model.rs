//! The base model's name, asked of the server where nobody says it.

use acb_live::Target;
use acb_live::drivers::{Driver, RuntimeKind};
use miette::{IntoDiagnostic, miette};

/// The one base model that a server lists under `/v1/models`.
///
/// # Errors
/// When it can't be asked, or lists none or several.
pub fn only_model(target: &Target) -> miette::Result<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().into_diagnostic()?;
    // Every runtime lists its models as OpenAI does.
    let listed = Driver::new(RuntimeKind::Openai, target.clone(), "")
        .and_then(|driver| runtime.block_on(driver.models()))
        .map_err(|error| miette!("--model is missing, and the server can't be asked for it: {error}"))?;
    match listed.base.as_slice() {
        [only] => Ok(only.clone()),
        [] => Err(miette!("--model is missing, and {target} lists no base model; name the one it serves")),
        several => {
            Err(miette!("--model is missing, and {target} lists {}; name one of them", several.join(", ")))
        }
    }
}
