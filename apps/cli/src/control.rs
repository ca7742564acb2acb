//! The control socket of a run: its options, its place, and the lock of the instance.

use std::path::{Path, PathBuf};

use crate::instances::{self, Holder, Lock, Refusal};

/// The options of `run` about its control socket.
#[derive(clap::Args)]
pub(crate) struct ControlOptions {
    /// Listen on this Unix socket for `tidegate ctl` and other clients of Click's control protocol
    ///
    /// Without it, a run of a file with interfaces listens at a place where `tidegate ctl` finds it by its
    /// name (docs/control.md).
    #[arg(long, value_name = "FILE", help_heading = "Control")]
    control: Option<PathBuf>,
    /// The name by which `tidegate ctl`, `top` and `reload` find the run
    ///
    /// By default, this is the name of the configuration's file without .click, if the run has interfaces.
    #[arg(long, value_name = "NAME", help_heading = "Control", conflicts_with = "control")]
    name: Option<String>,
    /// Have no control socket
    #[arg(long, help_heading = "Control", conflicts_with_all = ["control", "name"])]
    no_control: bool,
    /// Let the members of a group of users connect to the control socket, too
    #[arg(long, value_name = "NAME", help_heading = "Control", conflicts_with = "no_control")]
    control_group: Option<String>,
    /// Let clients of the control socket only read
    #[arg(long, help_heading = "Control", conflicts_with = "no_control")]
    control_readonly: bool,
    /// The folder below which clients of the control socket may have files written
    ///
    /// By default, this is the folder for state of a service ($STATE_DIRECTORY), otherwise the working
    /// folder; with --control-group there is none.
    #[arg(long, value_name = "FOLDER", help_heading = "Control", conflicts_with = "no_control")]
    files: Option<PathBuf>,
}

/// The control socket of a run. The instance keeps its lock as long as this value exists.
pub(crate) struct ControlSeat {
    /// The arguments of the element ControlSocket.
    pub(crate) config: String,
    _lock: Lock,
}

impl ControlOptions {
    /// Checks the name of the instance and the group.
    ///
    /// # Errors
    /// If the name is not allowed, or there is no such group: the message for the user.
    pub(crate) fn check(&self) -> Result<(), String> {
        if let Some(name) = self.name.as_deref().filter(|name| !instances::is_name(name)) {
            return Err(format!("--name {name}: a name has letters, digits and ._@+- only, at most 64"));
        }
        let Some(group) = &self.control_group else { return Ok(()) };
        match nix::unistd::Group::from_name(group) {
            Ok(Some(_)) => Ok(()),
            Ok(None) => Err(format!("--control-group: there is no group '{group}' on this machine")),
            Err(error) => Err(format!("--control-group: {}", crate::reason(&error.into()))),
        }
    }

    /// Finds the place of the control socket, and takes the lock of the instance. `file` is the file of the
    /// configuration, if it has one, and `is_live` is true if the run has interfaces. Returns `None` if the
    /// run has no control socket.
    ///
    /// # Errors
    /// If another process runs the instance, or the lock cannot be used: the message for the user.
    pub(crate) fn open(&self, file: Option<&Path>, is_live: bool) -> Result<Option<ControlSeat>, String> {
        let path = file.map(|file| file.canonicalize().unwrap_or_else(|_| file.to_path_buf()));
        let configuration =
            path.map_or("a configuration without a file".into(), |path| path.display().to_string());
        let configuration = configuration.replace(['\r', '\n'], " ");
        let (socket, option) = match (&self.control, &self.name) {
            (Some(socket), _) => (socket.clone(), format!("--control {}", socket.display())),
            (None, Some(name)) => {
                let option = format!("--name {name}");
                let failed =
                    |error| format!("{option}: no place for a control socket: {}", crate::reason(&error));
                (instances::socket_for(name).map_err(failed)?, option)
            }
            (None, None) => {
                let name = file.filter(|_| is_live && !self.no_control).and_then(instances::name_of);
                // A user without a place for sockets runs configurations as well.
                let Some((name, socket)) =
                    name.and_then(|name| Some((name, instances::socket_for(name).ok()?)))
                else {
                    return Ok(None);
                };
                match Lock::take(&socket, &configuration) {
                    Ok(lock) => return Ok(Some(self.seat(&socket, lock))),
                    Err(Refusal::Held(holder)) if holder.configuration == configuration => {
                        return Err(runs_already(name, "--name", &holder));
                    }
                    Err(Refusal::Held(Holder { pid, configuration })) => crate::warn(format_args!(
                        "no control socket: process {pid} runs {configuration} by the name '{name}'; --name \
                         gives this run another name"
                    )),
                    Err(Refusal::Error(error)) => {
                        let (place, why) = (socket.display(), crate::reason(&error));
                        crate::warn(format_args!("no control socket at {place}: {why}"));
                    }
                }
                return Ok(None);
            }
        };
        match Lock::take(&socket, &configuration) {
            Ok(lock) => Ok(Some(self.seat(&socket, lock))),
            Err(Refusal::Error(error)) => Err(format!("{option}: {}", crate::reason(&error))),
            Err(Refusal::Held(holder)) if holder.configuration == configuration => Err(match &self.name {
                Some(name) => runs_already(name, "--name", &holder),
                None => runs_already(&socket.display().to_string(), "another --control", &holder),
            }),
            Err(Refusal::Held(Holder { pid, configuration })) => {
                Err(format!("{option}: process {pid} runs {configuration} there; `kill {pid}` ends it"))
            }
        }
    }

    fn seat(&self, socket: &Path, lock: Lock) -> ControlSeat {
        let quote = |path: &Path| lang::args::quote(path.display().to_string());
        let mut config = format!("UNIX, {}", quote(socket));
        if self.control_readonly {
            config += ", READONLY true";
        }
        if let Some(group) = &self.control_group {
            config += &format!(", GROUP {}", lang::args::quote(group.clone()));
        }
        if let Some(files) = self.files() {
            config += &format!(", FILES {}", quote(&files));
        }
        ControlSeat { config, _lock: lock }
    }

    /// Returns the folder of `--files`, if the option was given.
    pub(crate) fn given_files(&self) -> Option<&Path> {
        self.files.as_deref()
    }

    /// Returns the folder below which clients may have files written; `None` if they may not.
    fn files(&self) -> Option<PathBuf> {
        if self.files.is_some() || self.control_group.is_some() {
            return self.files.clone();
        }
        // The service manager separates several folders by colons (systemd.exec(5)).
        let of_service = std::env::var("STATE_DIRECTORY").unwrap_or_default();
        let of_service = of_service.split(':').next().filter(|folder| !folder.is_empty());
        of_service.map(PathBuf::from).or_else(|| std::env::current_dir().ok())
    }
}

/// Returns the message about an instance that another process runs already. `option` gives a second instance
/// a place of its own.
fn runs_already(name: &str, option: &str, Holder { pid, configuration }: &Holder) -> String {
    format!(
        "{configuration} runs already, in process {pid}: `tidegate reload {name}` has it read the file again, \
         `kill {pid}` ends it, and {option} gives this run a place of its own"
    )
}
